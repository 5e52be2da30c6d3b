/* ckpt.hpp: checkpoints for programs in C++17, on top of ckpt.h.
 *
 *     ckpt sdk c -o ckpt.h && ckpt sdk c++ -o ckpt.hpp
 *
 *     ckpt::session run(rank, size);
 *     run.protect("u", u);                          // std::vector<double> u
 *     run.protect("state", time, step_size, seeds); // state.0, state.1, state.2
 *     for (long step = run.restore(); step < steps; step++) {
 *         advance(u);
 *         if (run.boundary(step + 1) == CKPT_STOP) break;
 *     }
 *     run.finalize();
 *
 * protect takes by reference what holds its values itself: numbers, enumerations and other
 * trivially copyable types, arrays, and contiguous containers of these (data() and size()):
 * std::vector, std::array, std::string, std::span, matrices of Eigen. A container may grow
 * and move: the session looks where it is before each checkpoint. ckpt::block(p, n) is n
 * values at p. What is protected has to live until forget, or as long as the session.
 *
 * The session calls ckpt_finalize at its end, but not while an exception passes: then the
 * program has failed, and runs again.
 */
#ifndef CKPT_HPP
#define CKPT_HPP

#include "ckpt.h"

#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace ckpt {

/* An error says what failed, and what to do. */
struct error : std::runtime_error {
    int status;
    explicit error(int status) : std::runtime_error(ckpt_error()), status(status) {}
};

/* block is memory that something else owns. */
template <class T> struct block {
    T *at;
    std::size_t count;
    block(T *at, std::size_t count) : at(at), count(count) {}
    T *data() const { return at; }
    std::size_t size() const { return count; }
};

namespace detail {

template <class T, class = void> struct contiguous : std::false_type {};
template <class T>
struct contiguous<T, std::void_t<decltype(std::declval<T &>().data()), decltype(std::declval<T &>().size())>>
    : std::true_type {};

template <class T, class = void> struct growing : std::false_type {};
template <class T>
struct growing<T, std::void_t<decltype(std::declval<T &>().push_back(*std::declval<T &>().data()))>>
    : std::true_type {};

template <class T> struct is_block : std::false_type {};
template <class T> struct is_block<block<T>> : std::true_type {};

/* type helps to pack values. */
template <class T> constexpr int type() {
    if (std::is_floating_point_v<T>) return sizeof(T) == 8 ? CKPT_FLOAT64 : sizeof(T) == 4 ? CKPT_FLOAT32 : CKPT_BYTES;
    if (std::is_integral_v<T> && sizeof(T) == 2) return CKPT_INT16;
    if (std::is_integral_v<T>) return sizeof(T) == 8 ? CKPT_INT64 : sizeof(T) == 4 ? CKPT_INT32 : CKPT_BYTES;
    return CKPT_BYTES;
}

struct memory {
    void *at;
    std::size_t bytes;
    int type;
};

template <class T> memory of(T *at, std::size_t count) {
    using value = std::remove_cv_t<T>;
    static_assert(!std::is_const_v<T>, "a checkpoint cannot restore constants");
    static_assert(std::is_trivially_copyable_v<value>, "protect each member that holds memory of its own");
    static_assert(!std::is_pointer_v<value>, "a pointer means nothing after a restart: protect what it points to, by ckpt::block");
    return {at, count * sizeof(value), type<value>()};
}

/* where finds the memory of a value or a container. */
template <class T> memory where(T &value) {
    if constexpr (contiguous<T>::value) return of(value.data(), static_cast<std::size_t>(value.size()));
    else if constexpr (std::is_array_v<T>) return of(reinterpret_cast<std::remove_all_extents_t<T> *>(&value), sizeof value / sizeof(std::remove_all_extents_t<T>));
    else return of(&value, 1);
}

} // namespace detail

/* A session is what a rank has between ckpt_init and ckpt_finalize. */
class session {
    struct region {
        std::function<detail::memory()> where;
        std::function<void(long long)> resize; /* empty: its size is the program's */
        std::function<int(const char *, const detail::memory &)> tell;
        detail::memory told;
    };
    std::map<std::string, region> regions;
    int passing = std::uncaught_exceptions();
    bool open = true;

    static int check(int status) {
        if (status == CKPT_ARGUMENT) throw error(status);
        return status;
    }

    /* refresh tells where memory is that has moved or grown. */
    void refresh() {
        for (auto &[name, r] : regions) {
            detail::memory now = r.where();
            if (now.at == r.told.at && now.bytes == r.told.bytes) continue;
            check(r.tell(name.c_str(), now));
            r.told = now;
        }
    }

    template <class T, class F> void add(const std::string &name, T &value, F tell) {
        region r;
        if constexpr (detail::is_block<std::remove_cv_t<T>>::value)
            r.where = [copy = value]() mutable { return detail::where(copy); };
        else
            r.where = [&value] { return detail::where(value); };
        if constexpr (detail::growing<T>::value)
            r.resize = [&value](long long bytes) { value.resize(static_cast<std::size_t>(bytes) / sizeof(*value.data())); };
        r.tell = tell;
        r.told = r.where();
        check(tell(name.c_str(), r.told));
        regions[name] = std::move(r);
    }

    /* own refuses values that end with the call; a block only names memory. */
    template <class T> static constexpr void own() {
        using plain = std::remove_cv_t<std::remove_reference_t<T>>;
        static_assert(std::is_lvalue_reference_v<T> || detail::is_block<plain>::value, "protect a variable, not a temporary value");
    }

    static int plain(const char *name, const detail::memory &m) { return ckpt_protect(name, m.at, m.bytes, m.type); }
    static int same(const char *name, const detail::memory &m) { return ckpt_protect_replicated(name, m.at, m.bytes, m.type); }

public:
    session(int rank, int size) { check(ckpt_init(rank, size)); }
    session(const session &) = delete;
    session &operator=(const session &) = delete;
    ~session() {
        if (open && std::uncaught_exceptions() == passing) ckpt_finalize();
    }

    /* protect adds memory that belongs to this rank; with several values, NAME.0 and so on. */
    template <class T> void protect(const std::string &name, T &&value) {
        own<T>();
        add(name, value, plain);
    }
    template <class A, class B, class... More> void protect(const std::string &name, A &&a, B &&b, More &&...more) {
        own<A>(), own<B>(), (own<More>(), ...);
        int i = 0;
        auto each = [&](auto &value) { add(name + "." + std::to_string(i++), value, plain); };
        each(a), each(b), (each(more), ...);
    }

    /* replicated adds memory that is the same on all ranks. */
    template <class T> void replicated(const std::string &name, T &&value) { own<T>(), add(name, value, same); }

    /* global adds a part of an array that all ranks hold together. */
    template <class T> void global(const std::string &name, T &&value, const ckpt_global &part) {
        own<T>();
        add(name, value, [part](const char *n, const detail::memory &m) { return ckpt_protect_global(n, m.at, m.bytes, m.type, &part); });
        regions[name].resize = nullptr; /* the part says its size */
    }

    void forget(const std::string &name) {
        check(ckpt_forget(name.c_str()));
        regions.erase(name);
    }

    /* restore fills the memory, and returns the step to resume from, or 0. A container that
     * can grow gets the size that it had. */
    long restore() {
        for (auto &[name, r] : regions) {
            long long bytes = r.resize ? ckpt_query(name.c_str()) : -1;
            if (bytes >= 0) r.resize(bytes);
        }
        refresh();
        long step = ckpt_restore();
        if (step < 0) throw error(static_cast<int>(step));
        return step;
    }

    /* boundary says that a checkpoint may be taken here, and save that one is. They return
     * CKPT_OK, CKPT_STOP or, if a checkpoint failed, a negative status: the program goes on. */
    int boundary(long step) { return refresh(), ckpt_boundary(step); }
    int save(long step) { return refresh(), ckpt_save(step); }
    int wait() { return ckpt_wait(); }

    /* finalize says that the program ends on purpose, and that its result is safe. */
    void finalize() {
        open = false;
        ckpt_finalize();
    }
};

} // namespace ckpt

#endif
