// SPDX-License-Identifier: GPL-3.0-or-later
// The router in the emulator: the choices and weights of the host backends, to the bit.
#include "kernels/cuda/launch_experts.h"
#include "tests/cuda/device_rig.h"
#include "tests/support/float_view.h"
#include "tests/support/kernel_data.h"

#include <QTest>

#include <cmath>
#include <limits>

using namespace kernels;
using namespace kernels::cuda;
using device_rig::DeviceArray;
using device_rig::Rows;
using kernel_data::viewOf;
using Scores = RouterShape::Scores;
using GroupRule = RouterShape::GroupRule;

namespace {

/// Ids and weights of a step.
struct Choice {
    std::vector<int> ids;
    std::vector<float> weights;
};

Choice routeOnHost(const RouterShape &shape, std::vector<float> logits)
{
    const auto ops = kernel_data::reference();
    const auto stream = ops->makeStream();
    const std::int64_t tokens = std::ssize(logits) / shape.experts;
    Choice choice;
    choice.ids.resize(static_cast<std::size_t>(tokens * shape.expertsUsed));
    choice.weights.resize(choice.ids.size());
    ops->route(viewOf(logits, tokens, shape.experts), shape,
               makeView(choice.ids.data(), DType::I32, tokens, shape.expertsUsed),
               viewOf(choice.weights, tokens, shape.expertsUsed), *stream);
    return choice;
}

std::string checkRoute(RouterShape shape, const std::vector<float> &logits, const std::vector<float> &bias)
{
    shape.selectionBias = bias.empty() ? nullptr : bias.data();
    const Choice wanted = routeOnHost(shape, logits);
    const int tokens = static_cast<int>(logits.size()) / shape.experts;
    return device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const Rows rows(tokens, shape.experts, logits);
        const DeviceArray<float> deviceBias(bias);
        const DeviceArray<int> ids(wanted.ids.size());
        const Rows weights(tokens, shape.expertsUsed);
        RouterShape own = shape;
        own.selectionBias = bias.empty() ? nullptr : deviceBias.data();
        launchRoute(rows.span(), own, ids.data(), weights.span(), stream);
        if (!ids.bordersIntact() || !weights.restIntact() || !deviceBias.equals(bias))
            return "something was written outside of the results";
        if (!ids.equals(wanted.ids)) {
            for (std::size_t i = 0; i < wanted.ids.size(); ++i)
                if (ids[i] != wanted.ids[i])
                    return "choice " + std::to_string(i) + " is expert " + std::to_string(ids[i]) + ", wanted "
                        + std::to_string(wanted.ids[i]);
        }
        const std::vector<float> found = weights.values();
        for (std::size_t i = 0; i < found.size(); ++i)
            if (std::isnan(found[i]) != std::isnan(wanted.weights[i])
                || (!std::isnan(found[i]) && found[i] != wanted.weights[i]))
                return "weight " + std::to_string(i) + " is " + std::to_string(found[i]) + ", wanted "
                    + std::to_string(wanted.weights[i]);
        return {};
    });
}

} // namespace

class TestCudaRoute : public QObject {
    Q_OBJECT

private slots:
    void choices_data();
    void choices();
    void ties();
    void oddLogits();
};

void TestCudaRoute::choices_data()
{
    QTest::addColumn<int>("experts");
    QTest::addColumn<int>("used");
    QTest::addColumn<int>("groups");
    QTest::addColumn<int>("groupsUsed");
    for (const auto &[experts, used, groups, groupsUsed] : {std::tuple{4, 2, 1, 1},
                                                            {8, 8, 4, 2},
                                                            {1, 1, 1, 1},
                                                            {33, 3, 11, 4},
                                                            {60, 5, 1, 1},
                                                            {128, 8, 1, 1},
                                                            {256, 8, 8, 4},
                                                            {72, 40, 36, 33}})
        if (!device_rig::smallOnly() || experts == 33)
            QTest::addRow("%d of %d, %d of %d", used, experts, groupsUsed, groups)
                << experts << used << groups << groupsUsed;
}

void TestCudaRoute::choices()
{
    QFETCH(int, experts);
    QFETCH(int, used);
    QFETCH(int, groups);
    QFETCH(int, groupsUsed);
    const int tokens = device_rig::smallOnly() ? 2 : 5;
    std::vector<float> logits = kernel_data::randomFloats(static_cast<std::size_t>(tokens * experts), 1);
    for (float &logit : logits)
        logit *= 6.0F;
    const std::vector<float> bias = kernel_data::randomFloats(static_cast<std::size_t>(experts), 2);
    for (const Scores scores : {Scores::Softmax, Scores::Sigmoid, Scores::SelectedSoftmax}) {
        for (const bool biased : {false, true}) {
            RouterShape shape;
            shape.experts = experts;
            shape.expertsUsed = used;
            shape.groups = groups;
            shape.groupsUsed = groupsUsed;
            shape.scores = scores;
            shape.normalise = biased != (scores == Scores::Softmax);
            shape.scale = biased ? 2.5F : 1.0F;
            shape.groupRule = biased ? GroupRule::TopTwo : GroupRule::Max;
            const std::string wrong = checkRoute(shape, logits, biased ? bias : std::vector<float>());
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
    }
}

void TestCudaRoute::ties()
{
    if (device_rig::smallOnly())
        return; // other values on the same ways
    RouterShape shape;
    shape.experts = 48;
    shape.expertsUsed = 7;
    std::vector<float> logits(96);
    for (std::size_t i = 0; i < logits.size(); ++i)
        logits[i] = i % 5 == 0 ? 0.0F : i % 5 == 1 ? -0.0F : static_cast<float>(i % 3) * 1e-9F;
    for (const Scores scores : {Scores::Softmax, Scores::Sigmoid, Scores::SelectedSoftmax}) {
        for (const int groupsUsed : {1, 3, 12}) {
            shape.scores = scores;
            shape.groups = 12;
            shape.groupsUsed = groupsUsed;
            shape.groupRule = groupsUsed == 1 ? GroupRule::TopTwo : GroupRule::Max;
            const std::string wrong = checkRoute(shape, logits, {});
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
    }
    // Biases below zero: experts of the groups left out count 0 and come first.
    shape.groupsUsed = 3;
    const std::string wrong = checkRoute(shape, logits, std::vector<float>(48, -2.0F));
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaRoute::oddLogits()
{
    if (device_rig::smallOnly())
        return; // other values on the same ways
    constexpr float inf = std::numeric_limits<float>::infinity();
    const float nan = std::nanf("");
    const std::vector<std::vector<float>> rows{{1, nan, 3, -inf, 5, 2, 0, 4},
                                               {nan, nan, nan, nan, nan, nan, nan, nan},
                                               {inf, 1, -inf, inf, 2, 3, -1, 0},
                                               {-inf, -inf, -inf, -inf, -inf, -inf, -inf, 1},
                                               {1e38F, -1e38F, 3e38F, 0, 1, 2, 88, -104}};
    for (const std::vector<float> &logits : rows) {
        for (const Scores scores : {Scores::Softmax, Scores::Sigmoid, Scores::SelectedSoftmax}) {
            for (const int groupsUsed : {2, 4}) {
                RouterShape shape;
                shape.experts = 8;
                shape.expertsUsed = 4;
                shape.scores = scores;
                shape.groups = 4;
                shape.groupsUsed = groupsUsed;
                shape.groupRule = GroupRule::TopTwo;
                const std::string wrong = checkRoute(shape, logits, {});
                QVERIFY2(wrong.empty(), wrong.c_str());
            }
        }
    }
}

QTEST_GUILESS_MAIN(TestCudaRoute)
#include "tst_cuda_route.moc"
