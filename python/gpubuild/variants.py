"""A provider of properties of wheel variants (PEP 850), for backends without a provider of their vendor.

`gpubuild :: backend :: vulkan` means that the machine can run Vulkan. Wheels of `gpubuild pack --wheel-variants` name this provider.
"""

import json
import subprocess
from collections import namedtuple

from gpubuild.build import _command

VariantFeatureConfig = namedtuple("VariantFeatureConfig", ["name", "values", "multi_value"])

BACKENDS = ["cuda", "rocm", "metal", "vulkan", "sycl", "opencl"]
PREFIX = "gpubuild :: backend :: "


class VariantPlugin:
    namespace = "gpubuild"

    @classmethod
    def get_all_configs(cls):
        return [VariantFeatureConfig("backend", BACKENDS, True)]

    @classmethod
    def get_supported_configs(cls):
        command = [_command(), "resolve", "--python", "--properties", "--json"]
        result = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        properties = json.loads(result.stdout.decode("utf-8")).get("variant_properties", [])
        values = [line[len(PREFIX) :] for line in properties if line.startswith(PREFIX)]
        return [VariantFeatureConfig("backend", values, True)] if values else []
