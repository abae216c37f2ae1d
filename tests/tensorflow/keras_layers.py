"""Arguments and inputs of Keras' layers, which Keras 3 and Keras 2 (tests/projects/legacy_keras.py) have alike."""

from __future__ import annotations

from typing import Any

LINE, IMAGE, VOLUME = (2, 8, 4), (2, 8, 8, 3), (2, 4, 4, 4, 2)

Row = tuple[dict[str, Any], Any]  # the constructor's arguments, and the shapes of inputs

LAYERS: dict[str, Row] = {
    "Activation": ({"activation": "gelu"}, LINE),
    "ActivityRegularization": ({"l2": 0.1}, LINE),
    **{f"AdaptiveAveragePooling{n}D": ({"output_size": 2}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"AdaptiveMaxPooling{n}D": ({"output_size": 2}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{name: ({}, [LINE, LINE]) for name in ("Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract")},
    "Concatenate": ({}, [LINE, LINE]),
    "Dot": ({"axes": -1}, [LINE, LINE]),
    "AdditiveAttention": ({}, [LINE, LINE]),
    "Attention": ({}, [LINE, LINE]),
    **{
        f"AveragePooling{n}D": ({"pool_size": 2, "padding": "same"}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))
    },
    **{f"MaxPooling{n}D": ({"padding": "same"}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"GlobalAveragePooling{n}D": ({}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"GlobalMaxPooling{n}D": ({}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    "BatchNormalization": ({}, IMAGE),
    "CenterCrop": ({"height": 4, "width": 6}, IMAGE),
    **{f"Conv{n}D": ({"filters": 3, "kernel_size": 3}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{
        f"Conv{n}DTranspose": ({"filters": 3, "kernel_size": 3, "strides": 2}, s)
        for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"ConvLSTM{n}D": ({"filters": 2, "kernel_size": 3, "padding": "same"}, (2, 3, *s[1:]))
        for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))
    },
    **{f"Cropping{n}D": ({"cropping": 1}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"ZeroPadding{n}D": ({"padding": 1}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    **{f"UpSampling{n}D": ({"size": 2}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    "Dense": ({"units": 5, "activation": "silu"}, LINE),
    **{f"DepthwiseConv{n}D": ({"kernel_size": 3}, s) for n, s in ((1, LINE), (2, IMAGE))},
    **{f"SeparableConv{n}D": ({"filters": 4, "kernel_size": 3}, s) for n, s in ((1, LINE), (2, IMAGE))},
    "Dropout": ({"rate": 0.5}, LINE),
    "AlphaDropout": ({"rate": 0.5}, LINE),
    "GaussianDropout": ({"rate": 0.5}, LINE),
    "GaussianNoise": ({"stddev": 0.5}, LINE),
    **{f"SpatialDropout{n}D": ({"rate": 0.5}, s) for n, s in ((1, LINE), (2, IMAGE), (3, VOLUME))},
    "ELU": ({}, LINE),
    "EinsumDense": ({"equation": "abc,cd->abd", "output_shape": (None, 5)}, LINE),
    "Flatten": ({}, IMAGE),
    "GroupNormalization": ({"groups": 3}, IMAGE),
    "GroupQueryAttention": ({"head_dim": 4, "num_query_heads": 4, "num_key_value_heads": 2}, [LINE, LINE]),
    "MultiHeadAttention": ({"num_heads": 2, "key_dim": 4}, [LINE, LINE]),
    "Identity": ({}, LINE),
    "LayerNormalization": ({}, LINE),
    "RMSNormalization": ({}, LINE),
    "UnitNormalization": ({}, LINE),
    "LeakyReLU": ({}, LINE),
    "Masking": ({}, LINE),
    "MelSpectrogram": ({"fft_length": 64, "sequence_stride": 16, "num_mel_bins": 8, "sampling_rate": 800}, (2, 256)),
    "STFTSpectrogram": ({"frame_length": 32, "frame_step": 16, "fft_length": 32}, (2, 128, 1)),
    "Normalization": ({"mean": 0.5, "variance": 2.0}, LINE),
    "PReLU": ({}, LINE),
    "Permute": ({"dims": (2, 1)}, LINE),
    "ReLU": ({"max_value": 1.0, "negative_slope": 0.1}, LINE),
    "RepeatVector": ({"n": 3}, (2, 4)),
    "Rescaling": ({"scale": 2.0, "offset": 1.0}, LINE),
    "Reshape": ({"target_shape": (4, 8)}, LINE),
    "Resizing": ({"height": 5, "width": 12}, IMAGE),
    "Softmax": ({}, LINE),
    **{name: ({"units": 5, "return_sequences": True}, LINE) for name in ("GRU", "LSTM", "SimpleRNN")},
}
