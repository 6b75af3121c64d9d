// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/checkpoint.h"
#include "engine/io/mapped_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/shared_data.h"

#include <QDir>
#include <QFile>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using engine::MappedFile;

namespace {

constexpr qsizetype pageBytes = 4096;

QString errorOf(const std::function<void()> &action)
{
    try {
        action();
    } catch (const engine::Error &error) {
        return QString::fromStdString(error.what());
    }
    return {};
}

QString openError(const QString &path)
{
    return errorOf([&path] { (void)engine::openCheckpoint(path.toStdString()); });
}

/// A model with one tensor of `pages` pages of the letter x.
GgufBuilder modelOf(qsizetype pages)
{
    GgufBuilder builder;
    builder.text("general.architecture", "llama");
    builder.tensor("w", kernels::DType::I8, {pages, pageBytes}, QByteArray(pages * pageBytes, 'x'));
    return builder;
}

/// Shard `number` (from 0) of `count`, with one tensor.
GgufBuilder shard(int number, int count, int tensors, const std::string &tensor)
{
    GgufBuilder builder;
    if (number == 0)
        builder.text("general.architecture", "llama");
    builder.u16("split.no", static_cast<std::uint16_t>(number)).u16("split.count", static_cast<std::uint16_t>(count));
    builder.i32("split.tensors.count", tensors);
    builder.tensor(tensor, {4}, {1.0F, 2.0F, 3.0F, static_cast<float>(number)});
    return builder;
}

std::size_t countOf(std::span<const std::byte> bytes, char letter)
{
    return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), static_cast<std::byte>(letter)));
}

/// Runs `child` in a process of its own and returns its wait status.
int statusOf(const std::function<void()> &child)
{
    const pid_t process = fork();
    if (process == 0) {
        std::signal(SIGBUS, SIG_DFL); // the test library has its own handler
        child();
        _exit(0);
    }
    int status = 0;
    waitpid(process, &status, 0);
    return status;
}

/// Installs our handler by mapping `path`, cuts the file and reads the mapping to its end.
void readCutMapping(const QString &path)
{
    const MappedFile ours(path.toStdString());
    if (truncate(path.toLocal8Bit().constData(), 0) != 0 || countOf(ours.bytes(), '\0') != ours.bytes().size())
        _exit(4);
}

/// Reads behind the end of a file in a mapping that is not ours.
void readForeignMapping(const QString &path)
{
    const int descriptor = open(path.toLocal8Bit().constData(), O_RDWR);
    const auto *data =
        static_cast<const volatile char *>(mmap(nullptr, pageBytes, PROT_READ, MAP_SHARED, descriptor, 0));
    if (ftruncate(descriptor, 0) != 0)
        _exit(3);
    (void)data[0];
}

} // namespace

class TstGgufFiles : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void init();
    void namesOfAllKinds_data();
    void namesOfAllKinds();
    void noRegularFiles();
    void noPermission();
    void otherFormats();
    void tensorBytes();
    void listedTypesAreRefusedWhenRead();
    void releasedPagesAreReadAgain();
    void changes();
    void cutFilesReadAsZeros();
    void cutWhileThreadsRead();
    void cutWhileOpening();
    void guardsAreReused();
    void shards();
    void shardFaults_data();
    void shardFaults();
    void joinedSetsAndLookalikes();

private:
    [[nodiscard]] QString at(const QString &name) const { return m_folder->filePath(name); }
    void writeSet();

    std::unique_ptr<QTemporaryDir> m_folder;
};

/// Faults in mappings that are not ours go to the handler that was there before ours. Child processes show it, which
/// need a parent that has not installed our handler yet.
void TstGgufFiles::initTestCase()
{
    const QTemporaryDir folder;
    const QString ours = folder.filePath("ours");
    const QString foreign = folder.filePath("foreign");
    const auto prepare = [&] { return modelOf(3).write(ours) && modelOf(2).write(foreign); };
    QVERIFY(prepare());
    int status = statusOf([&] {
        struct sigaction action = {};
        action.sa_handler = [](int) { _exit(42); };
        sigaction(SIGBUS, &action, nullptr);
        readCutMapping(ours);
        readForeignMapping(foreign);
    });
    QVERIFY(WIFEXITED(status));
    QCOMPARE(WEXITSTATUS(status), 42);
    QVERIFY(prepare());
    status = statusOf([&] {
        readCutMapping(ours);
        readForeignMapping(foreign);
    });
    QVERIFY2(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS,
             "without another handler the process ends as it always did");
    status = statusOf([&] {
        readCutMapping(foreign);
        raise(SIGBUS);
    });
    QVERIFY2(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "a signal that no access raised is not taken for one");
}

void TstGgufFiles::init()
{
    m_folder = std::make_unique<QTemporaryDir>();
    QVERIFY(m_folder->isValid());
}

void TstGgufFiles::namesOfAllKinds_data()
{
    QTest::addColumn<QString>("name");
    for (const QString &name :
         {QString("plain.gguf"), QString("with spaces  and 'quotes\".gguf"), QString("模型 モデル.gguf"),
          QString("🙂.gguf"), QString("no extension"), QString(".hidden"), QString("-dash.gguf")})
        QTest::newRow(qPrintable(name)) << name;
}

void TstGgufFiles::namesOfAllKinds()
{
    QFETCH(QString, name);
    QVERIFY(modelOf(1).write(at(name)));
    const auto checkpoint = engine::openCheckpoint(at(name).toStdString());
    QCOMPARE(QString::fromStdString(checkpoint->path()), at(name));
    QCOMPARE(countOf(checkpoint->bytes(checkpoint->tensors().front()), 'x'), std::size_t{pageBytes});
    QVERIFY(checkpoint->checkUnchanged().empty());
    QVERIFY(QFile::remove(at(name)));
    QVERIFY2(openError(at(name)).contains(QRegularExpression("cannot open .*No such file")),
             qPrintable(openError(at(name))));
}

void TstGgufFiles::noRegularFiles()
{
    QCOMPARE(mkfifo(at("pipe.gguf").toLocal8Bit().constData(), 0600), 0);
    QVERIFY2(openError(at("pipe.gguf")).contains("is a pipe, wanted a regular file"),
             qPrintable(openError(at("pipe.gguf"))));
    QVERIFY(openError("/dev/zero").contains("is a device, wanted a regular file"));
    QVERIFY(openError(m_folder->path()).contains("is a folder, wanted a .gguf file"));
    QVERIFY(errorOf([this] {
                MappedFile file(m_folder->path().toStdString());
            }).contains("is a folder, wanted a regular file"));
    QVERIFY(openError(QString("a") + QChar(0) + "b").contains("NUL"));
    QVERIFY(!openError("").isEmpty());
    QVERIFY(QFile::link("loop.gguf", at("loop.gguf")));
    QVERIFY(openError(at("loop.gguf")).contains("cannot open"));
    QVERIFY(QFile(at("empty.gguf")).open(QIODevice::WriteOnly));
    QVERIFY(openError(at("empty.gguf")).contains("0 bytes"));
}

void TstGgufFiles::noPermission()
{
    const QString path = at("secret.gguf");
    QVERIFY(modelOf(1).write(path));
    QVERIFY(QFile::setPermissions(path, {}));
    QCOMPARE(chmod(m_folder->path().toLocal8Bit().constData(), 0755), 0);
    const int status = statusOf([&path] {
        constexpr uid_t nobody = 65534;
        if (geteuid() == 0 && setuid(nobody) != 0) // the superuser may read every file
            _exit(2);
        _exit(openError(path).contains("Permission denied") ? 0 : 1);
    });
    QVERIFY(WIFEXITED(status));
    QCOMPARE(WEXITSTATUS(status), 0);
}

void TstGgufFiles::otherFormats()
{
    QVERIFY(QDir(m_folder->path()).mkdir("folder"));
    QFile config(at("folder/config.json"));
    QVERIFY(config.open(QIODevice::WriteOnly));
    QVERIFY(openError(at("folder")).contains("is a folder"));
    QVERIFY(openError(at("model.gguf.part1of2")).contains("join the pieces"));
}

void TstGgufFiles::tensorBytes()
{
    GgufBuilder builder;
    builder.tensor("a", {2}, {1.0F, 2.0F}).tensor("b", {1}, {3.0F});
    QVERIFY(builder.write(at("m.gguf")));
    const auto checkpoint = engine::openCheckpoint(at("m.gguf").toStdString());
    QCOMPARE(static_cast<qsizetype>(checkpoint->fileBytes()), builder.bytes().size());
    QVERIFY(checkpoint->find("c") == nullptr);
    const engine::TensorInfo *b = checkpoint->find("b");
    QVERIFY(b != nullptr);
    float value = 0;
    std::memcpy(&value, checkpoint->bytes(*b).data(), sizeof value);
    QCOMPARE(value, 3.0F);
    engine::TensorInfo wrong = *b;
    wrong.bytes = 1 << 20;
    QVERIFY_EXCEPTION_THROWN((void)checkpoint->bytes(wrong), engine::Error);
}

void TstGgufFiles::listedTypesAreRefusedWhenRead()
{
    QVERIFY(GgufBuilder().rawTensor("w", 15, {256}, QByteArray(292, 'x')).write(at("m.gguf")));
    const auto checkpoint = engine::openCheckpoint(at("m.gguf").toStdString());
    const QString error = errorOf([&] { (void)checkpoint->bytes(*checkpoint->find("w")); });
    QVERIFY2(error.contains("\"w\"") && error.contains("Q8_K") && error.contains("m.gguf"), qPrintable(error));
}

void TstGgufFiles::releasedPagesAreReadAgain()
{
    QVERIFY(modelOf(64).write(at("m.gguf")));
    const auto checkpoint = engine::openCheckpoint(at("m.gguf").toStdString());
    const engine::TensorInfo &tensor = checkpoint->tensors().front();
    const auto bytes = checkpoint->bytes(tensor);
    QCOMPARE(countOf(bytes, 'x'), std::size_t{64 * pageBytes});
    checkpoint->releasePages(tensor);
    unsigned char resident[64] = {};
    const auto start = (reinterpret_cast<std::uintptr_t>(bytes.data()) + pageBytes - 1) / pageBytes * pageBytes;
    QCOMPARE(mincore(reinterpret_cast<void *>(start), 63 * pageBytes, resident), 0); // still a valid mapping
    QCOMPARE(countOf(bytes, 'x'), std::size_t{64 * pageBytes});
    QVERIFY(checkpoint->checkUnchanged().empty());
}

void TstGgufFiles::changes()
{
    const QString path = at("m.gguf");
    const auto reopen = [&path] {
        QFile::remove(path);
        const QByteArray content = modelOf(2).bytes();
        QFile file(path);
        if (!file.open(QIODevice::WriteOnly) || file.write(content) != content.size())
            qFatal("cannot write the test's file");
        file.close();
        return engine::openCheckpoint(path.toStdString());
    };
    auto checkpoint = reopen();
    QFile file(path);
    QVERIFY(file.open(QIODevice::ReadWrite) && file.resize(100));
    QString change = QString::fromStdString(checkpoint->checkUnchanged());
    QVERIFY2(change.contains("cut short from 8320 to 100 bytes"), qPrintable(change));
    file.close();

    checkpoint = reopen();
    QVERIFY(file.open(QIODevice::Append) && file.write("more") == 4 && file.flush());
    QVERIFY(QString::fromStdString(checkpoint->checkUnchanged()).contains("was changed"));
    file.close();

    checkpoint = reopen();
    QVERIFY(modelOf(2).write(at("other.gguf")));
    QCOMPARE(rename(at("other.gguf").toLocal8Bit().constData(), path.toLocal8Bit().constData()), 0);
    QVERIFY(QString::fromStdString(checkpoint->checkUnchanged()).contains("replaced"));

    checkpoint = reopen();
    QVERIFY(QFile::remove(path));
    QVERIFY(QString::fromStdString(checkpoint->checkUnchanged()).contains("deleted"));
    QCOMPARE(countOf(checkpoint->bytes(checkpoint->tensors().front()), 'x'),
             std::size_t{2 * pageBytes}); // still mapped
}

void TstGgufFiles::cutFilesReadAsZeros()
{
    QVERIFY(modelOf(16).write(at("m.gguf")));
    struct stat before = {};
    QCOMPARE(stat(at("m.gguf").toLocal8Bit().constData(), &before), 0);
    const auto checkpoint = engine::openCheckpoint(at("m.gguf").toStdString());
    const auto bytes = checkpoint->bytes(checkpoint->tensors().front());
    QCOMPARE(countOf(bytes.first(10), 'x'), std::size_t{10});
    const qsizetype kept = 5 * pageBytes;
    QVERIFY(QFile::resize(at("m.gguf"), kept));
    const std::size_t there = static_cast<std::size_t>(kept) - checkpoint->tensors().front().fileOffset;
    QCOMPARE(countOf(bytes, 'x'), there);
    QCOMPARE(countOf(bytes, '\0'), bytes.size() - there);
    QVERIFY(QString::fromStdString(checkpoint->checkUnchanged()).contains("cut short"));
    // Even a file that looks as before afterwards is known to have failed once.
    QVERIFY(QFile::resize(at("m.gguf"), before.st_size));
    const timespec times[] = {before.st_atim, before.st_mtim};
    QCOMPARE(utimensat(AT_FDCWD, at("m.gguf").toLocal8Bit().constData(), times, 0), 0);
    QVERIFY(QString::fromStdString(checkpoint->checkUnchanged()).contains("could not be read"));
    QVERIFY(engine::openCheckpoint(at("m.gguf").toStdString())->checkUnchanged().empty()); // opened anew, it is sound
}

void TstGgufFiles::cutWhileThreadsRead()
{
    const int rounds = shared_data::fullTier() ? 100 : 5;
    for (int round = 0; round < rounds; ++round) {
        QVERIFY(modelOf(256).write(at("m.gguf")));
        const auto checkpoint = engine::openCheckpoint(at("m.gguf").toStdString());
        const auto bytes = checkpoint->bytes(checkpoint->tensors().front());
        std::atomic<int> passes = 0;
        std::vector<std::thread> readers;
        for (int i = 0; i < 4; ++i) {
            readers.emplace_back([&] {
                while (checkpoint->checkUnchanged().empty())
                    passes += countOf(bytes, 'x') <= bytes.size() ? 1 : 0;
                passes += countOf(bytes, 'x') < bytes.size() ? 1 : 0; // behind the cut
            });
        }
        QTRY_VERIFY(passes > 0);
        QVERIFY(QFile::resize(at("m.gguf"), pageBytes));
        for (std::thread &reader : readers)
            reader.join();
        QVERIFY(passes >= 4);
    }
}

void TstGgufFiles::cutWhileOpening()
{
    std::vector<std::string> tokens(60000, "a token of some length");
    const QByteArray content = GgufBuilder().text("general.architecture", "llama").texts("tokens", tokens).bytes();
    int failures = 0;
    const int rounds = shared_data::fullTier() ? 1000 : 100;
    for (int round = 0; round < rounds; ++round) {
        QFile file(at("m.gguf"));
        QVERIFY(file.open(QIODevice::WriteOnly) && file.write(content) == content.size() && file.flush());
        std::atomic<bool> started = false; // a thread may take longer to start than the file to open
        std::thread cutter([&file, &started, round] {
            started = true;
            started.notify_one();
            std::this_thread::sleep_for(std::chrono::microseconds(round % 100 * 10));
            (void)file.resize(100);
        });
        started.wait(false);
        const QString error = openError(at("m.gguf"));
        failures += error.isEmpty() ? 0 : 1;
        cutter.join();
    }
    QVERIFY(failures > 0); // cut early enough, opening ends as an Error; nothing else can happen
}

void TstGgufFiles::guardsAreReused()
{
    QVERIFY(modelOf(4).write(at("m.gguf")));
    std::vector<std::thread> threads;
    std::atomic<int> good = 0;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < 200; ++round) {
                const MappedFile file(at("m.gguf").toStdString());
                good += countOf(file.bytes(), 'x') >= 4 * pageBytes && file.checkUnchanged().empty() ? 1 : 0;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    QCOMPARE(good.load(), 800);
}

void TstGgufFiles::writeSet()
{
    QVERIFY(shard(0, 3, 3, "a").write(at("m-00001-of-00003.gguf")));
    QVERIFY(shard(1, 3, 3, "b").write(at("m-00002-of-00003.gguf")));
    QVERIFY(shard(2, 3, 3, "c").write(at("m-00003-of-00003.gguf")));
}

void TstGgufFiles::shards()
{
    writeSet();
    const auto checkpoint = engine::openCheckpoint(at("m-00001-of-00003.gguf").toStdString());
    QCOMPARE(checkpoint->tensors().size(), std::size_t{3});
    QCOMPARE(*checkpoint->metadata().text("general.architecture"), std::string("llama"));
    QCOMPARE(static_cast<qsizetype>(checkpoint->fileBytes()),
             shard(0, 3, 3, "a").bytes().size() + 2 * shard(1, 3, 3, "b").bytes().size());
    for (int i = 0; i < 3; ++i) {
        const engine::TensorInfo *tensor = checkpoint->find(std::string(1, static_cast<char>('a' + i)));
        QVERIFY(tensor != nullptr);
        QCOMPARE(tensor->file, i);
        float last = -1;
        std::memcpy(&last, checkpoint->bytes(*tensor).data() + 12, sizeof last);
        QCOMPARE(last, static_cast<float>(i));
        checkpoint->releasePages(*tensor);
    }
    QVERIFY(QFile::remove(at("m-00003-of-00003.gguf")));
    QVERIFY(QString::fromStdString(checkpoint->checkUnchanged()).contains("m-00003-of-00003.gguf\" was deleted"));
}

void TstGgufFiles::shardFaults_data()
{
    QTest::addColumn<QString>("opened");
    QTest::addColumn<QString>("changed"); ///< the file that is replaced by `content`, or removed
    QTest::addColumn<QByteArray>("content");
    QTest::addColumn<QStringList>("words");
    const QString first = "m-00001-of-00003.gguf";
    const QString second = "m-00002-of-00003.gguf";
    const QString third = "m-00003-of-00003.gguf";
    QTest::newRow("later shard opened") << third << "" << QByteArray() << QStringList{third, "shard 3 of 3", first};
    QTest::newRow("missing") << first << second << QByteArray() << QStringList{"1 of them are missing", second};
    QTest::newRow("copy of another") << first << third << shard(1, 3, 3, "b").bytes()
                                     << QStringList{third, "split.no 1", "wanted 2", "duplicate"};
    QTest::newRow("of another set") << first << third << shard(2, 4, 4, "c").bytes()
                                    << QStringList{third, "split.count 4", "wanted 3"};
    QTest::newRow("no shard") << first << third << modelOf(1).bytes() << QStringList{third, "split.no"};
    QTest::newRow("same tensor") << first << third << shard(2, 3, 3, "b").bytes()
                                 << QStringList{third, second, "\"b\"", "duplicate"};
    QTest::newRow("wrong sum") << first << first << shard(0, 3, 5, "a").bytes() << QStringList{first, "5", "3 tensors"};
    QTest::newRow("damaged") << first << second << shard(1, 3, 3, "b").bytes().left(90) << QStringList{second, "byte"};
    QTest::newRow("extra") << first << "m-00004-of-00003.gguf" << shard(3, 3, 3, "d").bytes()
                           << QStringList{"m-00004-of-00003.gguf", "extra"};
    QTest::newRow("first without keys") << first << first << modelOf(1).bytes() << QStringList{first, "split.no"};
    QTest::newRow("key of the wrong type") << first << first << GgufBuilder().text("split.count", "3").bytes()
                                           << QStringList{first, "split.count", "string"};
}

void TstGgufFiles::shardFaults()
{
    QFETCH(QString, opened);
    QFETCH(QString, changed);
    QFETCH(QByteArray, content);
    QFETCH(QStringList, words);
    writeSet();
    QFile file(at(changed));
    if (!changed.isEmpty()) {
        if (content.isEmpty())
            QVERIFY(file.remove());
        else
            QVERIFY(file.open(QIODevice::WriteOnly) && file.write(content) == content.size() && file.flush());
    }
    const QString error = openError(at(opened));
    for (const QString &word : words)
        QVERIFY2(error.contains(word), qPrintable(word + " is missing in: " + error));
}

void TstGgufFiles::joinedSetsAndLookalikes()
{
    // The tool that joins shards leaves a count of 0; one shard of one is a whole model.
    QVERIFY(shard(0, 0, 1, "a").write(at("joined.gguf")));
    QVERIFY2(openError(at("joined.gguf")).isEmpty(), qPrintable(openError(at("joined.gguf"))));
    QVERIFY(shard(0, 1, 1, "a").write(at("m-00001-of-00001.gguf")));
    QVERIFY(openError(at("m-00001-of-00001.gguf")).isEmpty());
    QVERIFY(modelOf(1).write(at("x-0001-of-0003.gguf")));
    QVERIFY(openError(at("x-0001-of-0003.gguf")).isEmpty());
    QVERIFY(shard(0, 3, 3, "a").write(at("renamed.gguf")));
    QVERIFY(openError(at("renamed.gguf")).contains("set of 3 shards"));
    QVERIFY(shard(0, 70, 3, "a").write(at("y-00001-of-00070.gguf")));
    const QString error = openError(at("y-00001-of-00070.gguf"));
    QVERIFY2(error.contains("69 of them are missing") && error.contains("y-00002-of-00070.gguf") && error.size() < 600,
             qPrintable(error));
}

QTEST_GUILESS_MAIN(TstGgufFiles)
#include "tst_gguf_files.moc"
