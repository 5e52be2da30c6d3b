package dmtcp

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"ckpt/coordinator/job"
)

// tools are the programs of DMTCP.
type tools struct {
	launch, coordinator, command, restart string
	version                               string
}

// oldest is the first version of DMTCP whose images package image/dmtcp can read.
const oldest = 4

const installIt = "install DMTCP 4.0 or newer (https://github.com/dmtcp/dmtcp), or put the directory of dmtcp_launch into $PATH"

// answerTime is how long a program of DMTCP may take to say something.
const answerTime = 30 * time.Second

// findTools finds DMTCP beside the dmtcp_launch of $PATH, and asks for its version.
func findTools(ctx context.Context) (*tools, error) {
	launch, err := exec.LookPath("dmtcp_launch")
	if err != nil {
		return nil, &job.UsageError{Text: "engine dmtcp: DMTCP is not installed: " + err.Error(), Fix: installIt}
	}
	if launch, err = filepath.Abs(launch); err != nil {
		return nil, err
	}
	beside := func(name string) string { return filepath.Join(filepath.Dir(launch), name) }
	t := &tools{launch: launch, coordinator: beside("dmtcp_coordinator"), command: beside("dmtcp_command"), restart: beside("dmtcp_restart")}
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
