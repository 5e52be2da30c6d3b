package iotrace

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A kind says whose a file is, by its name alone.
type fileKind uint8

const (
	jobs    fileKind = iota
	ifRead           // the system's, unless the job writes it
	systems          // the system's
)

// Directories of the system. Darshan leaves out nearly the same ones
// (darshan-runtime/lib/darshan-config.c, darshan_path_exclusions), and all of /var and
// /opt as well, where jobs may keep data.
var (
	kernelDirs = []string{"proc", "sys", "dev"}
	systemDirs = []string{"etc", "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "boot", "run", "snap"}
	deepDirs   = [][]string{{"nix", "store"}, {"gnu", "store"}, {"var", "run"}, {"var", "lib", "sss"}, {"var", "cache"}, {"var", "db", "nscd"}}
)

// dataDirs are below systemDirs and hold the data of users.
var dataDirs = [][]string{{"run", "media"}, {"run", "shm"}}

// disks are the beginnings of the names of block devices and memory devices in /dev.
var disks = []string{"sd", "hd", "vd", "xvd", "nvme", "dm-", "md", "mapper", "disk", "loop", "ram", "pmem", "dax", "nbd", "rbd", "zram"}

// libraryDirs are names of directories anywhere whose files belong to an interpreter
// or to an MPI library.
var libraryDirs = []string{"site-packages", "dist-packages", "__pycache__", "perl5", "perl-base", "locale-langpack", ".pyenv",
	".openmpi", ".pmix", ".prte", "openmpi-mca-params.conf", "pmix-mca-params.conf", "prte-mca-params.conf"}

// libraryPairs are the same with the directory above: R/library, share/openmpi.
var libraryPairs = [][2]string{{"R", "library"}, {"R", "site-library"}, {"share", "openmpi"}, {"share", "pmix"}, {"share", "prte"},
	{"share", "locale"}, {"share", "zoneinfo"}, {"lib", "locale"}, {"share", "julia"}, {"jre", "lib"}, {"lib", "jvm"}, {"opt", "spack"}, {".julia", "compiled"}, {"lib", "R"}}

// sessionNames are beginnings of names that MPI libraries and what they build on give
// to their own directories and shared memory.
var sessionNames = []string{"openmpi-sessions-", "vader_segment.", "open_mpi.", "sm_segment.", "mpich_shar_tmp", "psm2_shm.", "psm_shm.",
	"ucx_shm_posix_", "pmix_dstor_", "pmix.sys.", "nccl-", "Intel_MPI_", "shm-col-space-", "hwloc_shmem"}

// temporary are the same, but too short to be certain of them outside of the
// directories for temporary files.
var temporary = []string{"ompi.", "prte.", "prterun.", "prte-", "pmix-", "pmix.", "pmix_", "sem.", "psm", "cray-shared-mem-"}

// deleted is what the kernel adds to the name of a file that was removed.
const deleted = " (deleted)"

// SystemFile reports whether a file is the system's, by its name and by whether the job
// writes to it.
func SystemFile(name string, written bool) bool {
	k := judge(name, components(name))
	return k == systems || k == ifRead && !written
}

// judge says whose a file is. names are the parts of its path.
func judge(file string, names []string) fileKind {
	if len(names) == 0 {
		return systems // the root
	}
	if !strings.HasPrefix(file, "/") && isStream(file) {
		return systems
	}
	if session(file, names) {
		return systems
	}
	if strings.HasPrefix(file, "/") {
		switch {
		case names[0] == "dev" && device(names[1:]):
			return jobs
		case slices.Contains(kernelDirs, names[0]):
			return systems
		case below(names, dataDirs):
			return jobs
		case slices.Contains(systemDirs, names[0]), below(names, deepDirs):
			return ifRead
		case names[0] == "memfd:" || strings.HasPrefix(names[0], "memfd:") || strings.HasPrefix(names[0], "SYSV"):
			return systems
		}
	}
	if library(names) {
		return ifRead
	}
	return jobs
}

// stream reports whether a name is of no file in a directory.
func isStream(file string) bool {
	for _, s := range []string{"pipe:[", "socket:[", "anon_inode:", "memfd:", "<STD", "<std"} {
		if strings.HasPrefix(file, s) {
			return true
		}
	}
	return false
}

// device reports whether a job may keep data in a file of /dev: disks, shared memory.
// Session has seen to the shared memory of MPI libraries.
func device(names []string) bool {
	if len(names) == 0 {
		return false
	}
	if names[0] == "shm" {
		return len(names) > 1
	}
	for _, d := range disks {
		if strings.HasPrefix(names[0], d) {
			return true
		}
	}
	return false
}

func below(names []string, dirs [][]string) bool {
	for _, d := range dirs {
		if len(names) >= len(d) && slices.Equal(names[:len(d)], d) {
			return true
		}
	}
	return false
}

// session reports whether a file is of the session of an MPI library.
func session(file string, names []string) bool {
	loose := strings.HasPrefix(file, "/tmp/") || strings.HasPrefix(file, "/var/tmp/") || strings.HasPrefix(file, "/dev/shm/")
	for _, n := range names {
		if hasAny(n, sessionNames) || loose && hasAny(n, temporary) {
			return true
		}
		// ompi.HOST.UID of Open MPI 4, prte.HOST.UID of PRRTE, below any $TMPDIR
		if rest, ok := strings.CutPrefix(n, "ompi."); ok && endsInNumber(rest) {
			return true
		}
		if rest, ok := strings.CutPrefix(n, "prte."); ok && endsInNumber(rest) {
			return true
		}
		// data.locktest.RANK, with which OMPIO finds out whether locks work beside data
		if i := strings.LastIndex(n, ".locktest."); i > 0 && digits(n[i+len(".locktest."):]) {
			return true
		}
	}
	return false
}

func hasAny(name string, beginnings []string) bool {
	for _, b := range beginnings {
		if strings.HasPrefix(name, b) {
			return true
		}
	}
	return false
}

// endsInNumber reports whether a name ends in a dot and digits.
func endsInNumber(name string) bool {
	i := strings.LastIndexByte(name, '.')
	return i >= 0 && digits(name[i+1:])
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// library reports whether a file is a library or belongs to an interpreter.
func library(names []string) bool {
	last := names[len(names)-1]
	if strings.HasSuffix(last, ".pyc") || strings.HasSuffix(last, ".jar") || last == "ld.so.cache" || last == "locale-archive" || sharedObject(last) {
		return true
	}
	for i, n := range names {
		if slices.Contains(libraryDirs, n) {
			return true
		}
		if i == 0 {
			continue
		}
		if slices.Contains(libraryPairs, [2]string{names[i-1], n}) {
			return true
		}
		// lib/python3.11 and lib/perl/5.36 in /opt, conda and homes
		if (names[i-1] == "lib" || names[i-1] == "lib64") && (strings.HasPrefix(n, "python") || n == "perl") {
			return true
		}
	}
	return false
}

// sharedObject reports whether a name is a library's: x.so, x.so.6, x.so.1.2.
func sharedObject(name string) bool {
	base, version, found := strings.Cut(name, ".so.")
	if found {
		return base != "" && digits(strings.ReplaceAll(version, ".", ""))
	}
	return strings.HasSuffix(name, ".so") && name != ".so"
}

// launchers start the ranks of MPI jobs, or do so on one host for them.
var launchers = []string{"mpiexec", "mpirun", "orterun", "orted", "prterun", "prun", "prte", "prted",
	"hydra_pmi_proxy", "hydra_bstrap_proxy", "hydra_nameserver", "pmi_proxy", "srun", "slurmstepd", "slurmd",
	"aprun", "apinit", "palsd", "jsrun", "jsmd", "ibrun", "mpiexec_mpt", "mpd", "ssh", "sshd", "rsh"}

// launcher reports whether a program starts MPI jobs: mpiexec, /usr/bin/mpiexec.mpich.
func launcher(program string) bool {
	program = program[strings.LastIndexByte(program, '/')+1:]
	name, _, _ := strings.Cut(program, ".")
	return slices.Contains(launchers, name)
}

// Check returns an error that names the first malformed pattern.
func (o Scope) Check() error {
	for _, list := range [][]string{o.Include, o.Exclude} {
		for _, p := range list {
			if strings.Trim(p, "/") == "" && p != "/" {
				return fmt.Errorf("pattern %q names no file", p)
			}
			if _, err := path.Match(p, ""); err != nil {
				return fmt.Errorf("pattern %q: a bracket or backslash has no end", p)
			}
		}
	}
	return nil
}

// A pattern is a list of names between slashes.
type pattern struct {
	names  []string
	rooted bool // it began with a slash, so it matches from the root only
}

func patterns(list []string) []pattern {
	out := make([]pattern, 0, len(list))
	for _, p := range list {
		out = append(out, pattern{rooted: strings.HasPrefix(p, "/"), names: components(p)})
	}
	return out
}

// components returns the names of a path.
func components(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// anyOf reports whether any pattern matches a file or a directory above it.
func anyOf(list []pattern, file []string) bool {
	for _, p := range list {
		last := len(file) - 1
		if p.rooted {
			last = 0
		}
		for from := 0; from <= max(last, 0); from++ {
			if begins(p.names, file[from:]) {
				return true
			}
		}
	}
	return false
}

// begins reports whether the names of a file begin as the pattern says. "**" stands
// for any number of names.
func begins(pattern, file []string) bool {
	for i, p := range pattern {
		if p == "**" {
			for from := i; from <= len(file); from++ {
				if begins(pattern[i+1:], file[from:]) {
					return true
				}
			}
			return false
		}
		if i >= len(file) {
			return false
		}
		if ok, err := path.Match(p, file[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// Unmatched returns the patterns that match no file.
func Unmatched(list, files []string) (out []string) {
	if len(list) == 0 {
		return nil
	}
	left := patterns(list)
	matched := make([]bool, len(list))
	for _, f := range files {
		names := components(f)
		for i := range left {
			matched[i] = matched[i] || anyOf(left[i:i+1], names)
		}
	}
	for i, p := range list {
		if !matched[i] {
			out = append(out, p)
		}
	}
	return out
}
