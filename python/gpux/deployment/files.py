"""A folder from which a container is built: Dockerfile, the models, and a manifest for Kubernetes."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from ..configuration.settings import Settings
from ..errors import ConfigurationError
from ..registry.store import BuiltModel, Registry

_DOCKERFILE = """\
# Written by `gpux deploy --docker`. Build: docker build -t {image} .   Run: docker run -p {port}:{port} {image}
# unihal's wheel is taken from this folder if one lies here (pip wheel --no-deps .), else from the package index.
FROM python:3.11-slim
WORKDIR /app
COPY wheels/ wheels/
RUN pip install --no-cache-dir --find-links wheels "unihal[gpux]=={version}" && useradd --create-home --uid 10001 gpux
COPY models/ /models/
# A container's own address is what its host forwards to; on a machine nothing is listened to beyond 127.0.0.1.
ENV GPUX_REGISTRY=/models GPUX_HOST=0.0.0.0 GPUX_PORT={port}
USER gpux
EXPOSE {port}
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --start-period=30s CMD \
["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/v2/health/ready', timeout=2)"]
CMD [{command}]
"""

_KUBERNETES = """\
# Written by `gpux deploy --docker`: kubectl apply -f kubernetes.yml
# The keys of the API come first: kubectl create secret generic {name}-keys --from-file=keys=FILE
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels: {{app: {name}}}
spec:
  replicas: 2
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "{port}"
        prometheus.io/path: /metrics
    spec:
      terminationGracePeriodSeconds: {grace}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        fsGroup: 10001
        seccompProfile: {{type: RuntimeDefault}}
      containers:
        - name: gpux
          image: {image}
          ports: [{{name: http, containerPort: {port}}}]
          env:
            - {{name: GPUX_API_KEYS, value: /keys/keys}}
          volumeMounts:
            - {{name: keys, mountPath: /keys, readOnly: true}}
            - {{name: scratch, mountPath: /tmp}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {{drop: [ALL]}}
          resources:
            requests: {{cpu: "1", memory: 1Gi}}
            limits: {{memory: 4Gi}}
          startupProbe:
            httpGet: {{path: /v2/health/ready, port: http}}
            periodSeconds: 2
            failureThreshold: 150
          readinessProbe:
            httpGet: {{path: /v2/health/ready, port: http}}
            periodSeconds: 5
          livenessProbe:
            httpGet: {{path: /v2/health/live, port: http}}
            periodSeconds: 10
            timeoutSeconds: 5
      volumes:
        - name: keys
          secret: {{secretName: {name}-keys}}
        - name: scratch
          emptyDir: {{}}
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: http}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {name}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  minReplicas: 2
  maxReplicas: 8
  metrics:
    - type: Resource
      resource: {{name: cpu, target: {{type: Utilization, averageUtilization: 70}}}}
"""


def write_files(folder: Path, models: list[BuiltModel], settings: Settings) -> list[Path]:
    """Writes Dockerfile, kubernetes.yml and models/; only models of the registry can go along. What was written."""
    name = models[0].name.lower().replace("_", "-").replace(".", "-")
    references = [f"{model.name}:{model.version}" for model in models]
    port = settings["port"] or 8080
    values = {
        "name": name,
        "image": f"{name}:{models[0].version}",
        "port": port,
        "grace": int(settings["grace"]) + 10,
        "version": importlib.metadata.version("unihal"),
        "command": ", ".join(f'"{word}"' for word in ["gpux", "serve", *references]),
    }
    for model in models:
        if not model.info:
            raise ConfigurationError([f"{model.folder} was not built: `gpux build` it, and name it by its name"])
    try:
        (folder / "wheels").mkdir(parents=True, exist_ok=True)
        (folder / "wheels" / ".keep").touch()
        copies = Registry(folder / "models")
        for model in models:
            files = {str(file.relative_to(model.folder)): file for file in model.folder.rglob("*") if file.is_file()}
            copies.add(model.name, model.version, files, {})
        written = [folder / "Dockerfile", folder / "kubernetes.yml"]
        for path, text in zip(written, (_DOCKERFILE, _KUBERNETES)):
            path.write_text(text.format(**values))
    except OSError as error:
        raise ConfigurationError([f"{error.filename} cannot be written: {error.strerror}"]) from None
    return [*written, folder / "models"]
