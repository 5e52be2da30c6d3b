package dmtcp

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// clean removes the variables that would tell DMTCP to do something else: those of the
// user's shell, and of a DMTCP that ckpt itself runs under.
func clean(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "DMTCP_") || strings.HasPrefix(v, "JALIB_") || strings.HasPrefix(v, "MTCP_")
	})
}

// advice are settings of MPI libraries under which checkpoints of their programs can be
// restarted. They do not replace those of the user.
func advice(session string) map[string]string {
	return map[string]string{
		// UCX of MPICH: no hooks in malloc, and transports that DMTCP can restore.
		"UCX_MEM_EVENTS": "no",
		"UCX_TLS":        "posix,tcp,self",
		// These parts of hwloc open files in /sys that are not there in containers.
		"HWLOC_COMPONENTS": "-linuxio,-pci,-opencl,-gl",
		// Open MPI: transports that DMTCP can restore, and its files where they are found
		// again after a restart.
		"OMPI_MCA_pml":              "ob1",
		"OMPI_MCA_btl":              "self,vader",
		"OMPI_MCA_orte_tmpdir_base": session,
		"PRTE_MCA_prte_tmpdir_base": session,
	}
}

// environment returns that of the programs of DMTCP and of the user's program. DMTCP keeps
// its temporary files in temp, and writes images to images.
func environment(env []string, images, temp, session string, port int) []string {
	env = clean(env)
	set := advice(session)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		given := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if !given {
			env = append(env, name+"="+set[name])
		}
	}
	return append(env, "DMTCP_COORD_HOST="+loopback, "DMTCP_COORD_PORT="+strconv.Itoa(port), "DMTCP_CHECKPOINT_DIR="+images,
		"DMTCP_TMPDIR="+temp, "DMTCP_GZIP=0", "DMTCP_QUIET=2")
}

const loopback = "127.0.0.1"
