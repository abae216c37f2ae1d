"""Beyond one machine: a Ray Serve application, and files for a container and a cluster."""
