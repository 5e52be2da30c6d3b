package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ckpt/internal/family"
)

// disturb kills the coordinator of a command or another process of its job, breaks the
// directory of a node, copies the store, or has a stranger end the program, at some
// checkpoint or at any time. It returns the directory.
func (w *seams) disturb(c *seamCommand) string {
	kind, n := w.rng.IntN(8), 1+w.rng.IntN(4)
	at, moment := fmt.Sprintf("checkpoint %d", n), c.began.Add(time.Duration(w.rng.IntN(2500))*time.Millisecond)
	seen := func(said string) bool { return strings.Contains(said, at+" at") || strings.Contains(said, at+":") }
	if w.rng.IntN(3) == 0 {
		at = time.Until(moment).Round(time.Millisecond).String()
		seen = func(string) bool { return time.Now().After(moment) }
	}
	how := draw(w.rng, slices.Sorted(maps.Keys(seamOutages)))
	victim := w.rng.IntN(1000)
	if kind < 2 {
		return ""
	}
	said, ended, _ := c.until(seen)
	if ended {
		return ""
	}
	below := family.Descendants(c.cmd.Process.Pid)
	switch {
	case kind == 2:
		w.note("kill ckpt", "kill -9, at "+at)
		_ = c.cmd.Process.Kill()
		if !family.Await(below, seamPatience) {
			w.wrong("of %v some outlive their coordinator", below)
		}
	case kind == 3 && len(below) > 1:
		below = below[1:]
		p := below[victim%len(below)]
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		w.note("kill a process", fmt.Sprintf("kill -9 %d %.40q, at %s", p.PID, line, at))
		family.Signal([]family.Process{p}, syscall.SIGKILL)
		// The output of a program goes through its launcher.
		name, _, _ := strings.Cut(string(line), "\x00")
		c.muted = !slices.Contains([]string{"ckpt", "seams"}, filepath.Base(name))
	case kind == 4 && len(w.stores) < 4:
		c.accept()
		w.counts(c.jobPlace, said)
		w.copyStore(c.store)
	case kind > 5 && w.endByStranger(c.jobPlace):
		w.note("stranger", "dmtcp_command -k, at "+at)
	case kind > 4:
		return w.lose(how, at)
	}
	return ""
}

// lose breaks the directory of a node, if there is any.
func (w *seams) lose(how, at string) string {
	dirs, _ := filepath.Glob(filepath.Join(w.dir, "n?", "*"))
	if len(dirs) == 0 {
		return ""
	}
	dir := draw(w.rng, dirs)
	w.note("lose a node", how+" "+dir+", at "+at)
	seamOutages[how](dir)
	w.t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// copyStore copies a store, with all of its jobs, which may run.
func (w *seams) copyStore(store string) {
	to := fmt.Sprint("copy", len(w.stores))
	if _, err := os.Stat(filepath.Join(w.dir, store)); err != nil {
		return
	}
	w.note("copy", "cp -r "+store+" "+to)
	_ = exec.Command("cp", "-r", filepath.Join(w.dir, store), filepath.Join(w.dir, to)).Run() // files of a job that runs come and go
	w.stores = append(w.stores, to)
	for p, result := range maps.Clone(w.want) {
		if q := (jobPlace{to, p.job}); p.store == store {
			w.want[q], w.done[q], w.counted[q] = result, w.done[p], w.counted[p]
		}
	}
}

// seamOutages are ways in which the directory of a node is lost.
var seamOutages = map[string]func(dir string){
	"remove": func(dir string) { os.RemoveAll(dir) },
	"empty":  func(dir string) { os.RemoveAll(dir); _ = os.Mkdir(dir, 0o700) },
	"file":   func(dir string) { os.RemoveAll(dir); _ = os.WriteFile(dir, nil, 0o600) },
	"link":   func(dir string) { os.RemoveAll(dir); _ = os.Symlink("/nowhere", dir) },
	"format": func(dir string) { _ = os.WriteFile(filepath.Join(dir, "format"), []byte("ckXt-store 1\n"), 0o600) },
	"blank":  func(dir string) { _ = os.WriteFile(filepath.Join(dir, "format"), nil, 0o600) },
	"jobs":   func(dir string) { os.RemoveAll(filepath.Join(dir, "jobs")) },
	// As root; else these change nothing.
	"read-only": func(dir string) {
		if syscall.Mount(dir, dir, "", syscall.MS_BIND, "") == nil {
			_ = syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
		}
	},
	"full":    func(dir string) { _ = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k") },
	"unmount": func(dir string) { _ = syscall.Unmount(dir, syscall.MNT_DETACH) },
	"foreign": func(dir string) {
		other := filepath.Join(filepath.Dir(filepath.Dir(dir)), map[string]string{"n1": "n2", "n2": "n1"}[filepath.Base(filepath.Dir(dir))], filepath.Base(dir))
		if _, err := os.Stat(other); err == nil {
			os.RemoveAll(dir)
			_ = os.CopyFS(dir, os.DirFS(other))
		}
	},
	"mark": func(dir string) {
		for _, job := range []string{"a", "b"} {
			_ = os.WriteFile(filepath.Join(dir, "jobs", job, "node"), []byte("{"), 0o600)
		}
	},
}

// identity returns the digest of the description of a job; empty without one.
func (w *seams) identity(p jobPlace) string {
	b, _ := os.ReadFile(filepath.Join(w.dir, p.store, "jobs", p.job, "job"))
	return string(b[max(0, len(b)-66):])
}

// forget drops the digests of jobs that have gone.
func (w *seams) forget() {
	for p := range w.want {
		if w.identity(p) == "" {
			delete(w.want, p)
		}
	}
}

// A printed is a directory of a job, in its store or on a node.
type printed struct {
	jobPlace
	dir string
}

// prints returns what there is of each job, in the stores and on the nodes. A directory of a
// node without a checkpoint is free for another job.
func (w *seams) prints() map[printed]string {
	all := make(map[printed]string)
	for _, store := range w.stores {
		for _, job := range []string{"a", "b"} {
			dir := filepath.Join(w.dir, store, "jobs", job)
			if print := printOf(dir); print != "" {
				all[printed{jobPlace{store, job}, dir}] = print
			}
		}
	}
	nodes, _ := filepath.Glob(filepath.Join(w.dir, "n?", "*", "jobs", "*"))
	for _, dir := range nodes {
		var mark struct {
			Job   string
			Owner struct{ Path string }
		}
		b, _ := os.ReadFile(filepath.Join(dir, "node"))
		line, _, _ := bytes.Cut(b, []byte("\n"))
		manifests, _ := filepath.Glob(filepath.Join(dir, "*", "manifest"))
		if json.Unmarshal(line, &mark) == nil && mark.Owner.Path != "" && len(manifests) > 0 {
			all[printed{jobPlace{filepath.Base(mark.Owner.Path), mark.Job}, dir}] = printOf(dir)
		}
	}
	return all
}

// printOf returns a digest of all files below a directory, but for locks; empty if it is not
// there.
func printOf(dir string) string {
	sum, any := sha256.New(), false
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" || strings.HasSuffix(d.Name(), ".tmp") {
			return nil
		}
		b, _ := os.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
		any = true
		return nil
	})
	if !any {
		return ""
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
