// Written by gpubuild. Vulkan headers before 1.3.272 lack VK_EXT_layer_settings, which ggml uses without checking. With
// newer headers this file only includes the real one.
#pragma once
#include_next <vulkan/vulkan.hpp>

#ifndef VK_EXT_layer_settings
#include <cstdint>
#include <vector>

namespace VULKAN_HPP_NAMESPACE {

enum class LayerSettingTypeEXT { eBool32 = 0 };

// Same layout as VkLayerSettingEXT.
struct LayerSettingEXT {
    const char *pLayerName;
    const char *pSettingName;
    LayerSettingTypeEXT type;
    std::uint32_t valueCount;
    const void *pValues;
};

// Same layout as VkLayerSettingsCreateInfoEXT, with its number in sType: drivers that do not know it ignore it.
struct LayerSettingsCreateInfoEXT {
    explicit LayerSettingsCreateInfoEXT(const std::vector<LayerSettingEXT> &settings)
        : settingCount(static_cast<std::uint32_t>(settings.size())), pSettings(settings.data()) {}

    VkStructureType sType = static_cast<VkStructureType>(1000496000);
    const void *pNext = nullptr;
    std::uint32_t settingCount;
    const LayerSettingEXT *pSettings;
};

}  // namespace VULKAN_HPP_NAMESPACE
#endif
