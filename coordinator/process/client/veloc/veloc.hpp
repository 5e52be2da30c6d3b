/* veloc.hpp: VeloC's interface in C++ on top of veloc.h, for C++17.
 *
 *     ckpt sdk c -o ckpt.h && ckpt sdk veloc -o veloc.h && ckpt sdk veloc-c++ -o veloc.hpp
 *
 * Names and arguments come from VeloC's public interface; the code is our own. veloc.h lists the
 * differences. Memory and serialized objects of all groups are saved with each checkpoint, and
 * the checkpoints of a program have one name. A client for a process alone is refused.
 */
#ifndef VELOC_HPP
#define VELOC_HPP

#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "veloc.h"

namespace veloc {

class client_t {
protected:
    static constexpr char default_mem_group[] = "default";
    using serializer_t = std::function<void(std::ostream &)>;
    using deserializer_t = std::function<bool(std::istream &)>;
    using observer_t = std::function<void(const std::string &name, int version)>;

public:
    virtual bool mem_protect(int id, void *ptr, size_t count, size_t base_size, const std::string &name = default_mem_group) = 0;
    virtual bool mem_protect(int id, const serializer_t &s, const deserializer_t &d, const std::string &name = default_mem_group) = 0;
    virtual bool mem_unprotect(int id, const std::string &name = default_mem_group) = 0;
    virtual void mem_clear(const std::string &name = default_mem_group) = 0;
    virtual bool register_observer(int type, const observer_t &obs) = 0;

    virtual std::string route_file(const std::string &original) = 0;
    virtual bool cleanup(const std::string &name) = 0;

    virtual bool checkpoint(const std::string &name, int version) = 0;
    virtual bool checkpoint_begin(const std::string &name, int version) = 0;
    virtual bool checkpoint_mem(int mode, const std::set<int> &ids) = 0;
    virtual bool checkpoint_end(bool success) = 0;
    virtual bool checkpoint_wait() = 0;
    virtual bool checkpoint_finished() = 0;

    virtual int restart_test(const std::string &name, int version, int target_rank = -1) = 0;
    virtual bool restart(const std::string &name, int version, int target_rank = -1) = 0;
    virtual bool restart_begin(const std::string &name, int version, int target_rank = -1) = 0;
    virtual size_t recover_size(int id) = 0;
    virtual bool recover_mem(int mode, const std::set<int> &ids) = 0;
    virtual bool restart_end(bool success) = 0;

    virtual ~client_t() = 0;
};

inline client_t::~client_t() {}

// The client of a program under ckpt. Its objects that are serialized lie in texts, which are
// regions.
class ckpt_client_t final : public client_t {
    struct object_t {
        serializer_t write;
        deserializer_t read;
        std::string text;
    };
    std::map<std::pair<std::string, int>, object_t> objects;
    std::vector<observer_t> observers;
    std::vector<std::pair<std::string, int>> behind; // taken, and not told to the observers
    std::pair<std::string, int> current;

    static bool good(int status) { return status == VELOC_SUCCESS; }

    static bool in_default(const std::string &name) { return name == default_mem_group; }

    static bool protect(int id, void *ptr, size_t count, size_t base_size, const std::string &name) {
        if (in_default(name)) return good(VELOC_Mem_protect(id, ptr, count, base_size));
        return good(VELOC_Region_protect(id, ptr, count, base_size, name.c_str()));
    }

    static long long stored(const std::pair<std::string, int> &key) {
        std::string region = in_default(key.first) ? "veloc." : "veloc:" + key.first + ".";
        return ckpt_query((region + std::to_string(key.second)).c_str());
    }

    // A rank restarts from its own part.
    static bool own(int target_rank) {
        if (target_rank < 0 || target_rank == ckpt_shim.rank) return true;
        return ckpt_shim_refuse("veloc::client_t", "a rank restarts from its own part: target_rank is another one"), false;
    }

    static int *list(const std::set<int> &ids, std::vector<int> &to) {
        to.assign(ids.begin(), ids.end());
        return to.data();
    }

public:
    explicit ckpt_client_t(MPI_Comm comm, const std::string &cfg_file) {
        if (!good(VELOC_Init(comm, cfg_file.c_str()))) throw std::runtime_error("veloc::get_client: " + std::string(ckpt_error()));
    }

    ~ckpt_client_t() override { VELOC_Finalize(0); }

    bool mem_protect(int id, void *ptr, size_t count, size_t base_size, const std::string &name) override {
        objects.erase({name, id});
        return protect(id, ptr, count, base_size, name);
    }

    bool mem_protect(int id, const serializer_t &s, const deserializer_t &d, const std::string &name) override {
        object_t &object = objects[{name, id}];
        object.write = s;
        object.read = d;
        object.text = "-"; // protected before it is known
        return protect(id, &object.text[0], object.text.size(), 1, name);
    }

    bool mem_unprotect(int id, const std::string &name) override {
        objects.erase({name, id});
        return good(in_default(name) ? VELOC_Mem_unprotect(id) : VELOC_Region_unprotect(id, name.c_str()));
    }

    void mem_clear(const std::string &name) override {
        for (auto it = objects.begin(); it != objects.end();) it = it->first.first == name ? objects.erase(it) : std::next(it);
        if (in_default(name)) VELOC_Mem_clear();
        else VELOC_Region_clear(name.c_str());
    }

    bool register_observer(int type, const observer_t &obs) override {
        if (type != VELOC_OBSERVE_CKPT_END) return false;
        observers.push_back(obs);
        return true;
    }

    std::string route_file(const std::string &original) override {
        char routed[VELOC_MAX_NAME];
        return good(VELOC_Route_file(original.c_str(), routed)) ? routed : "";
    }

    bool cleanup(const std::string &name) override { return good(VELOC_Cleanup(name.c_str())); }

    bool checkpoint(const std::string &name, int version) override {
        return checkpoint_wait() && checkpoint_begin(name, version) && checkpoint_end(checkpoint_mem(VELOC_CKPT_ALL, {}));
    }

    bool checkpoint_begin(const std::string &name, int version) override {
        current = {name, version};
        return good(VELOC_Checkpoint_begin(name.c_str(), version));
    }

    bool checkpoint_mem(int mode, const std::set<int> &ids) override {
        std::vector<int> numbers;
        bool written = true;
        for (auto &[key, object] : objects) {
            std::ostringstream out;
            object.write(out);
            object.text = out.str() + "-"; // a region has bytes
            written = written && out.good() && protect(key.second, &object.text[0], object.text.size(), 1, key.first);
        }
        return written && good(VELOC_Checkpoint_selective(mode, list(ids, numbers), static_cast<int>(ids.size())));
    }

    bool checkpoint_end(bool success) override {
        if (!good(VELOC_Checkpoint_end(success))) return false;
        behind.push_back(current);
        return true;
    }

    bool checkpoint_wait() override {
        bool stored = good(VELOC_Checkpoint_wait());
        for (const auto &[name, version] : behind)
            for (const auto &observer : observers)
                if (stored) observer(name, version);
        behind.clear();
        return stored;
    }

    bool checkpoint_finished() override { return checkpoint_wait(); }

    int restart_test(const std::string &name, int version, int target_rank) override {
        return own(target_rank) ? VELOC_Restart_test(name.c_str(), version) : VELOC_FAILURE;
    }

    bool restart(const std::string &name, int version, int target_rank) override {
        return restart_begin(name, version, target_rank) && restart_end(recover_mem(VELOC_RECOVER_ALL, {}));
    }

    bool restart_begin(const std::string &name, int version, int target_rank) override {
        return own(target_rank) && good(VELOC_Restart_begin(name.c_str(), version));
    }

    size_t recover_size(int id) override {
        int bytes = VELOC_Recover_size(id);
        return bytes < 0 ? 0 : static_cast<size_t>(bytes);
    }

    bool recover_mem(int mode, const std::set<int> &ids) override {
        std::vector<int> numbers;
        for (auto &[key, object] : objects) {
            long long bytes = stored(key);
            if (bytes < 1) continue; // the call below says so
            object.text.assign(static_cast<size_t>(bytes), '-');
            if (!protect(key.second, &object.text[0], object.text.size(), 1, key.first)) return false;
        }
        if (!good(VELOC_Recover_selective(mode, list(ids, numbers), static_cast<int>(ids.size())))) return false;
        for (auto &[key, object] : objects) {
            if (in_default(key.first) && !veloc_chosen(mode, numbers.data(), static_cast<int>(numbers.size()), key.second)) continue;
            std::istringstream in(object.text.substr(0, object.text.size() - 1));
            if (!object.read(in)) return false;
        }
        return true;
    }

    bool restart_end(bool success) override { return good(VELOC_Restart_end(success)); }
};

inline client_t *get_client(MPI_Comm comm, const std::string &cfg_file) { return new ckpt_client_t(comm, cfg_file); }

inline client_t *get_client(unsigned int id, const std::string &cfg_file) {
    VELOC_Init_single(id, cfg_file.c_str());
    throw std::runtime_error("veloc::get_client: processes cannot take checkpoints alone: give it a communicator");
}

}

#endif
