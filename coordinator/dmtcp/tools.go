package dmtcp

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/coordinator/job"
)

// Tools are the programs of DMTCP.
type Tools struct {
	launch, coordinator, command, restart string
	version                               string
}

// oldest is the first version of DMTCP whose images package image/dmtcp can read.
const oldest = 4

const installIt = "install DMTCP 4.0 or newer (https://github.com/dmtcp/dmtcp), or put the directory of dmtcp_launch into $PATH"

// answerTime is how long a program of DMTCP may take to say something.
const answerTime = 30 * time.Second

// Find finds DMTCP beside the dmtcp_launch of $PATH, and asks for its version.
func Find(ctx context.Context) (*Tools, error) {
	launch, err := exec.LookPath("dmtcp_launch")
	if err != nil {
		return nil, &job.UsageError{Text: "engine dmtcp: DMTCP is not installed: " + err.Error(), Fix: installIt}
	}
	if launch, err = filepath.Abs(launch); err != nil {
		return nil, err
	}
	beside := func(name string) string { return filepath.Join(filepath.Dir(launch), name) }
	t := &Tools{launch: launch, coordinator: beside("dmtcp_coordinator"), command: beside("dmtcp_command"), restart: beside("dmtcp_restart")}
	for _, name := range []string{t.coordinator, t.command, t.restart} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, &job.UsageError{Text: fmt.Sprintf("engine dmtcp: %s is there, but %s is not", launch, filepath.Base(name)), Fix: installIt}
		}
	}
	ctx, done := context.WithTimeout(ctx, answerTime)
	defer done()
	cmd := exec.CommandContext(ctx, launch, option("version"))
	cmd.Env = clean(cmd.Environ())
	said, err := cmd.CombinedOutput() // some versions end with status 1
	if t.version = parseVersion(string(said)); t.version == "" {
		return nil, &job.UsageError{Text: fmt.Sprintf("engine dmtcp: %s does not tell its version (%v): %.80q", launch, err, said), Fix: installIt}
	}
	if major, _ := strconv.Atoi(versionForm.FindStringSubmatch(t.version)[1]); major < oldest {
		return nil, &job.UsageError{Text: fmt.Sprintf("engine dmtcp: %s is version %s, whose images ckpt cannot read", launch, t.version), Fix: installIt}
	}
	return t, nil
}

var (
	versionLine = regexp.MustCompile(`\(DMTCP[^)]*\) +(?:version +)?([0-9][^\s]*)`)
	versionForm = regexp.MustCompile(`^([0-9]+)`)
)

// parseVersion returns the version in what a program of DMTCP says about itself.
func parseVersion(said string) string {
	if m := versionLine.FindStringSubmatch(said); m != nil {
		return m[1]
	}
	return ""
}

// option returns the long form of a setting of DMTCP.
func option(name string) string { return "--" + name }

// clean removes the variables that would tell DMTCP to do something else: variables of the
// user's shell, and of a DMTCP that ckpt itself runs under.
func clean(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "DMTCP_") || strings.HasPrefix(v, "JALIB_") || strings.HasPrefix(v, "MTCP_")
	})
}

// advice are settings of MPI libraries under which checkpoints of their programs can be
// restarted. They do not replace settings of the user.
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

// environment returns the variables of the programs of DMTCP and of the user's program. DMTCP keeps
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
