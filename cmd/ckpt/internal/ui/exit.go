package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/dmtcp"
	"ckpt/internal/durable"
	"ckpt/internal/objectfs"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// The exit statuses, decided in this file only.
const (
	ExitDone        = 0
	ExitUsage       = 1
	ExitRuntime     = 2
	ExitDamage      = 3
	ExitNotFound    = 4
	ExitJobFailed   = 5
	ExitStorageFull = 6
	ExitInUse       = 7
	ExitRequeue     = 75 // EX_TEMPFAIL of sysexits.h
	ExitInterrupted = 130
)

const ExitHelp = `EXIT STATUS
  0  done
  1  usage: wrong flags or arguments
  2  runtime failure
  3  verification found damage
  4  job, checkpoint or file not found
  5  the job failed and could not be restarted
  6  storage full
  7  another process has the job
  75  stopped by SIGTERM, SIGUSR1 or --walltime
  130  interrupted`

// ExitCode chooses the exit status of an error.
func ExitCode(err error) int {
	var (
		usage   usageError
		request *job.UsageError
		spec    *dataset.SpecError
		damage  *durable.DamageError
		failed  *coordinator.JobFailedError
		format  *zones.FormatError
		set     *dmtcp.SetError
		left    *coordinator.LeftError
	)
	var command CommandStatus
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &command):
		return int(command)
	case errors.Is(err, ErrRequeue), errors.Is(err, ErrTerminated):
		return ExitRequeue
	case errors.Is(err, ErrInterrupted), errors.Is(err, ErrDeclined), errors.Is(err, context.Canceled), errors.As(err, &left):
		return ExitInterrupted
	case errors.As(err, &usage), errors.As(err, &request), errors.As(err, &set), errors.Is(err, image.ErrAmongJobs):
		return ExitUsage
	case errors.As(err, &spec):
		if errors.Is(err, os.ErrNotExist) {
			return ExitNotFound
		}
		return ExitUsage
	case errors.As(err, &format):
		if format.Unsupported {
			return ExitRuntime
		}
		return ExitDamage
	case errors.As(err, &failed):
		return ExitJobFailed
	case errors.As(err, &damage), errors.Is(err, durable.ErrOtherJob), errors.Is(err, ErrDamageFound), errors.Is(err, ErrUnchecked) && errors.As(err, new(*job.UnseenError)):
		return ExitDamage
	case errors.As(err, new(notFoundError)), errors.Is(err, image.ErrNoStore), errors.Is(err, image.ErrJobNotFound), errors.Is(err, image.ErrJobGone), errors.Is(err, image.ErrCheckpointNotFound):
		return ExitNotFound
	case errors.Is(err, durable.ErrStorageFull):
		return ExitStorageFull
	case errors.Is(err, image.ErrInUse):
		return ExitInUse
	}
	return ExitRuntime
}

// HintOf returns the remedy for an error, or "".
func HintOf(err error) string {
	var log *job.LogError
	if errors.As(err, &log) {
		return withoutLog(log)
	}
	var hinter interface{ Hint() string }
	if errors.As(err, &hinter) {
		return hinter.Hint()
	}
	var other *container.OtherJobError
	var unreachable *wire.UnreachableError
	switch {
	case errors.As(err, &unreachable):
		return signalled(unreachable)
	case errors.Is(err, image.ErrNoStore):
		return "name the store with --store or $CKPT_STORE; ckpt launch creates it"
	case errors.Is(err, vfs.ErrForbidden):
		return "choose an earlier checkpoint with --checkpoint N, or another store"
	case errors.Is(err, objectfs.ErrNoBucket):
		return "make the bucket with the tools of its storage, or correct its name"
	case errors.Is(err, image.ErrAmongJobs):
		return "name a directory apart from that store"
	case errors.Is(err, image.ErrNoIdentity):
		return "name the file of an identity that may open it, CKPT_IDENTITY=/home/me/key.txt; without one, ckpt list and ckpt verify tell what can be told"
	case errors.Is(err, image.ErrOtherStore):
		return "compare the fingerprint that ckpt seal shows with somebody who made the store; do not write into it before"
	case errors.Is(err, image.ErrJobNotFound):
		return "ckpt list shows the jobs of the store"
	case errors.Is(err, image.ErrCheckpointNotFound):
		return "ckpt list JOB shows its checkpoints"
	case errors.Is(err, image.ErrJobExists):
		return "choose another --job, or continue it with ckpt restart"
	case errors.Is(err, image.ErrJobGone):
		return "put the directory back under its name; if it was removed, launch the job again under another --job"
	case errors.As(err, &other):
		return otherJob(other)
	case errors.Is(err, image.ErrInUse):
		return "ckpt status shows the job; ckpt stop JOB ends it; --wait waits until it has ended"
	case errors.Is(err, vfs.ErrNoLocks):
		return "mount it with locks (-o flock on Lustre, a lock service for NFS), or name a directory on another file system"
	case errors.Is(err, durable.ErrNewerVersion):
		return "use the version of ckpt that wrote it, or a newer one"
	case errors.Is(err, container.ErrRegionsDiffer):
		return "protect the regions of the checkpoint, with their sizes, before ckpt_restore; ckpt_query tells the sizes"
	case errors.Is(err, wire.ErrSilent):
		return "kill -CONT resumes a stopped process"
	case errors.Is(err, wire.ErrNotRunning):
		return "ckpt status shows the jobs of the store; ckpt restart JOB continues the job"
	}
	var damage *durable.DamageError
	var left *coordinator.LeftError
	switch {
	case errors.As(err, &left) && left.Job != "":
		return "ckpt restart " + left.Job + " continues the job, once its storage answers"
	case !errors.As(err, &damage):
	case ofCheckpoint(damage.File):
		return "ckpt list JOB shows other checkpoints; a coordinated job restarts from one with --checkpoint N"
	case filepath.Base(damage.File) == "output.jsonl":
		return "restore the file from a copy of the store; without it, a restart shows lines of output again that it has shown"
	case ofLine(damage.File):
		return "restore the file from a copy of the store; without one, ckpt prune JOB --keep 0 lets ckpt restart start the job from scratch"
	}
	return ""
}

// signalled says how a job is reached whose socket is not.
func signalled(e *wire.UnreachableError) string {
	where := ""
	if !e.Here {
		where = " where it runs"
		if e.Host != "" {
			where = " on " + e.Host
		}
	}
	return fmt.Sprintf("kill -TERM %[1]d%[2]s stops it after a last checkpoint, kill -USR2 %[1]d takes one; a socket that was removed is made again within seconds", e.PID, where)
}

// otherJob says what to do about a checkpoint in the directory of another job, which was
// copied or renamed.
func otherJob(e *container.OtherJobError) string {
	if e.Want == "" {
		return ""
	}
	return fmt.Sprintf("directories of jobs keep their names: if %[1]s was renamed, call it %[2]s again; if it was copied, ckpt rm %[1]s removes the copy", e.Want, e.Job)
}

// withoutLog says how a job resumes whose message log is damaged.
func withoutLog(e *job.LogError) string {
	does := "begins the job again"
	if !e.Anew() {
		var from []string
		for _, n := range e.From {
			if n == 0 {
				from = append(from, "the beginning")
			} else {
				from = append(from, strconv.Itoa(n))
			}
		}
		does = fmt.Sprintf("resumes from the checkpoints that need no log (%s; iteration %d)", strings.Join(from, ", "), e.Iteration)
	}
	return fmt.Sprintf("put it back from a copy of the store; or ckpt restart %s --without-log %s", e.Job, does)
}

// ofCheckpoint reports whether a file lies in the directory of a checkpoint: then
// another checkpoint may help.
func ofCheckpoint(file string) bool {
	_, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
	return err == nil
}

// ofLine reports whether a file is a message log, a part of one, or the baseline.
// Without it a job of several groups has no recovery line.
func ofLine(file string) bool {
	dir := filepath.Dir(file)
	return filepath.Base(file) == "line.json" || filepath.Base(dir) == "logs" || filepath.Base(filepath.Dir(dir)) == "logs"
}

// Complain prints an error and its hint, and as JSON too if asked for.
// The status of a command of the user needs no words: the command had its own.
func Complain(w io.Writer, err error, asJSON bool) {
	if errors.As(err, new(CommandStatus)) {
		return
	}
	code, hint := ExitCode(err), HintOf(err)
	text := OneLine(err.Error())
	fmt.Fprintf(w, "ckpt: %s\n", Text(text))
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", Text(hint))
	}
	if !asJSON {
		return
	}
	line, merr := json.Marshal(struct {
		Error string `json:"error"`
		Hint  string `json:"hint"`
		Code  int    `json:"code"`
	}{text, hint, code})
	if merr == nil {
		fmt.Fprintf(w, "%s\n", line)
	}
}
