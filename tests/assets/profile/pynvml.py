"""Stands for the module pynvml: one GPU that is in the target table of the fake artifact."""


class NVMLError(Exception):
    value = 3  # not supported


ANSWERS = {
    "nvmlInit": None,
    "nvmlShutdown": None,
    "nvmlSystemGetDriverVersion": "590.48.01",
    "nvmlDeviceGetCount": 1,
    "nvmlDeviceGetHandleByIndex": 0,
    "nvmlDeviceGetName": "Fake GPU",
    "nvmlDeviceGetUUID": "GPU-1234",
}


def __getattr__(name):
    if not name.startswith("nvml"):
        raise AttributeError(name)

    def answer(*arguments):
        if name not in ANSWERS:
            raise NVMLError(name)
        return ANSWERS[name]

    return answer
