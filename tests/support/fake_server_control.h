// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/server_control.h"

#include <utility>
#include <vector>

/// A server that never listens: remembers what it was asked for and tells the states that a test gives it.
class FakeServerControl final : public ui::ServerControl {
public:
    void start(const ui::ServerWish &wish) override
    {
        wishes.push_back(wish);
        if (runsAtOnce)
            tell({ui::ServerState::Phase::Running, "http://127.0.0.1:8642", wish.withKey ? "key-of-the-test" : "",
                  "example", "", 0});
    }
    void stop() override
    {
        ++stops;
        if (runsAtOnce)
            tell({});
    }
    void setModel(const std::optional<engine::ModelInfo> &model) override { models.push_back(model.has_value()); }
    void setListener(std::function<void(const ui::ServerState &)> next) override { listener = std::move(next); }
    void tell(const ui::ServerState &state)
    {
        if (listener)
            listener(state);
    }

    std::vector<ui::ServerWish> wishes;
    std::vector<bool> models; ///< whether each one was a model
    int stops = 0;
    bool runsAtOnce = true;
    std::function<void(const ui::ServerState &)> listener;
};
