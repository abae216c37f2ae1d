"""Small outputs share slabs of TensorFlow's pool: what a program sees of memory stays as it was."""

from __future__ import annotations

import pytest
from test_process import run

MEMORY = """
        import gc
        import threading
        SLAB = 16 << 10
        info = lambda: tf.config.experimental.get_memory_info("RDNA:0")
        device = tf.device("/device:RDNA:0")
        device.__enter__()
        one = tf.ones([])
"""


def test_blocks_are_told_apart_whichever_thread_frees_them() -> None:
    run(
        MEMORY
        + """
        lengths = [1, 3, 64, 65, 128, 200, 256, 511, 512, 1000, 1024, 1025, 2000]  # to 4096 bytes, and more
        for dtype in ("float32", "float64", "float16", "int64", "bool", "complex64", "uint8"):
            values = [tf.cast(tf.fill([n], 1.0), dtype) for n in lengths]
            assert all(tf.reduce_all(value == tf.cast(one, dtype)) for value in values), dtype
        assert tf.negative(tf.zeros([0, 5])).shape == [0, 5]

        def work(seed):
            random = np.random.RandomState(seed)
            with tf.device("/device:RDNA:0"):
                for step in range(300):
                    number = float(random.randint(1 << 20))
                    with lock:  # most of what is taken out was put in by another thread
                        held.append((number, tf.fill([lengths[random.randint(len(lengths))]], number) * one))
                        taken = held.pop(random.randint(len(held))) if len(held) > 60 else None
                    if taken is not None:
                        np.testing.assert_array_equal(taken[1].numpy(), np.float32(taken[0]))
                    del taken

        def guarded(seed):
            try:
                work(seed)
            except BaseException as error:
                failures.append(error)

        held, failures, lock = [], [], threading.Lock()
        threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not failures, failures
        for number, tensor in held:
            np.testing.assert_array_equal(tensor.numpy(), np.float32(number))
        """
    )


def test_memory_statistics_count_slabs() -> None:
    run(
        MEMORY
        + """
        def settled():  # a thread of TensorFlow's lets go of a copy's tensors some time after the copy
            gc.collect()
            return info()["current"]
        for length in (64, 128, 256, 512, 1024):
            tf.negative(tf.ones([length]))
        before = settled()
        for length in (1, 64, 65, 1024):
            rounded = max(256, 1 << (4 * length - 1).bit_length())
            held = [one + tf.zeros([length]) for _ in range(200)]
            grown = settled() - before
            assert 200 * rounded - SLAB <= grown <= 200 * rounded + 2 * SLAB, (length, grown)
            del held[::2]
            del held
            assert settled() - before <= 2 * SLAB, length
        # What is larger is a chunk of its own.
        held = [one + tf.zeros([1025]) for _ in range(8)]
        assert 8 * 4100 <= settled() - before < 8 * 4100 + 3 * SLAB
        """
    )


def test_an_input_in_a_slab_is_forwarded() -> None:
    run(
        MEMORY
        + """
        operand = tf.ones([1024])  # a quarter of a slab

        @tf.function
        def chain(x):
            for _ in range(10):
                x = tf.cos(tf.sin(x))
            return x

        expected = chain(operand).numpy()
        held, before = [], info()["current"]
        while info()["current"] == before:
            held.append(tf.sin(operand))
        held += [tf.sin(operand), tf.sin(operand)]  # of all slabs one block is left
        before = info()["current"]
        tf.config.experimental.reset_memory_stats("RDNA:0")
        result = chain(operand)
        assert info()["peak"] == before, (info(), before)
        held.append(tf.sin(operand))
        assert info()["current"] > before  # so it was
        np.testing.assert_array_equal(result.numpy(), expected)
        """,
        UNIHAL_TENSORFLOW_FUSION="0",
    )


def test_tensors_outlive_a_reset_of_the_context() -> None:
    run(
        MEMORY
        + """
        from tensorflow.python.eager import context
        held = [one + tf.zeros([length]) for length in (1, 64, 200, 1000) for _ in range(70)]
        device.__exit__(None, None, None)
        for _ in range(2):
            context._reset_context()
            with tf.device("/device:RDNA:0"):
                fresh = [tf.fill([100], float(i)) * tf.ones([]) for i in range(100)]
            del held
            held = fresh[::2]
            assert [int(tensor.numpy()[99]) for tensor in fresh] == list(range(100))
        assert 50 * 512 <= info()["current"]
        """
    )


@pytest.mark.whole  # TensorFlow's pool tries again for ten seconds before it gives up
def test_a_limit_holds_for_small_outputs() -> None:
    run(
        """
        import tf_rdna
        tf_rdna.config.set_memory_growth(True)
        tf_rdna.config.set_visible_devices([0])
        tf_rdna.config.set_memory_limit(1 << 20)
        with tf_rdna.device(0):
            operand, held = tf.ones([512]), []
            try:
                while len(held) < 1000:
                    held.append(tf.negative(operand))
                raise SystemExit("no limit")
            except tf.errors.ResourceExhaustedError as error:
                assert "RDNA:0" in str(error), error
            assert 400 < len(held) < 512, len(held)
            del held
            assert tf.reduce_sum(tf.ones([1 << 16])).numpy() == 1 << 16  # the slabs were given back
        """
    )
