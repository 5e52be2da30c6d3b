package serve

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
)

// awaitEnd sends a request, and waits until the process of its task has ended.
func awaitEnd(t *testing.T, s *server, send func() []byte) Task {
	t.Helper()
	ch, _ := s.watch.listen()
	defer s.watch.leave(ch)
	var first Task
	if err := json.Unmarshal(send(), &first); err != nil || first.ID == "" {
		t.Fatalf("%v %+v: want a task", err, first)
	}
	for c := range ch {
		if c.Task != nil && c.Task.ID == first.ID && c.Task.State != taskRunning {
			return *c.Task
		}
	}
	t.Fatal("the stream ended before the task")
	return Task{}
}

// TestLaunchRefused: a launch or restart that fails has the problem of its command.
func TestLaunchRefused(t *testing.T) {
	library, err := filepath.Abs("../../../../testdata/stores/program")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CKPT_TEST_LIBRARY", library)
	s, h := newTest(t)
	name := jobOf(t, s)
	for _, test := range []struct {
		path, body   string
		status, code int
	}{
		{"", `{"app":"bt.S.4","job":"` + name + `"}`, 409, ui.ExitRuntime},
		{"/nosuch/restart", "{}", 404, ui.ExitNotFound},
		{"/" + name + "/restart", `{"checkpoint":77}`, 404, ui.ExitNotFound},
	} {
		k := awaitEnd(t, s, func() []byte {
			return ask(h, changeToken, "POST", "/api/stores/golden/jobs"+test.path, test.body).Body.Bytes()
		})
		if p := k.Problem; k.State != taskFailed || p == nil || p.Status != test.status || p.Code != test.code || p.Hint == "" || p.Detail[0] == '{' {
			t.Errorf("%s %s: %+v %+v", test.path, test.body, k, k.Problem)
		}
	}
}

// TestEndOf: the last line of a process says how it ended; without one, what it said.
func TestEndOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script, detail, hint string
		status, code         int
		told                 []string
	}{
		{"exit 0", "", "", 0, 0, nil},
		{`echo "ckpt: the disk is full"; echo '{"error":"the disk is full","hint":"free space","code":6}'; exit 6`, "the disk is full", "free space", 507, ui.ExitStorageFull, nil},
		{`echo '{"error":"open x: permission denied","hint":"","code":2}'; exit 2`, "open x: permission denied", "", 403, ui.ExitRuntime, nil},
		{`echo '{"error":"rank 1 died","hint":"","code":5}'; exit 5`, "rank 1 died", "", 409, ui.ExitJobFailed, nil},
		{`echo "ckpt: a warning"; kill -KILL $$`, "ckpt: a warning", "", 500, ui.ExitRuntime, nil},
		{"exit 3", "exit status 3", "", 409, ui.ExitDamage, nil},
		{`echo '{"error":"stopped, to be continued","hint":"ckpt restart x","code":75}'; exit 75`, "", "", 0, 0, []string{"stopped, to be continued", "ckpt restart x"}},
	} {
		said, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		cmd := exec.Command("/bin/sh", "-c", test.script)
		cmd.Stdout = said
		told, err := endOf(t.Context(), cmd.Run(), said)
		p := &problem{}
		if err != nil {
			p = problemOf(err, nil)
		}
		if p.Detail != test.detail || p.Hint != test.hint || p.Status != test.status || p.Code != test.code || !slices.Equal(told, test.told) {
			t.Errorf("%s: %+v, %v", test.script, p, told)
		}
	}
}

// TestKindsOfTasks: launched jobs, tasks that change jobs and tasks that read have bounds of their
// own, and each begin is told.
func TestKindsOfTasks(t *testing.T) {
	t.Parallel()
	begun := 0
	all := tasks{changed: func(Task) { begun++ }}
	kinds := []*operation{{right: changing, how: detach}, {right: reading, how: long}, {right: changing, how: long}}
	for n, o := range kinds {
		for range mostRunning {
			if all.add(Task{}, o, nil) == nil {
				t.Fatalf("%d tasks run, and none of kind %d begins", begun, n)
			}
		}
		if all.add(Task{}, o, nil) != nil {
			t.Errorf("more than %d tasks of kind %d run", mostRunning, n)
		}
	}
	if begun != len(kinds)*mostRunning {
		t.Errorf("%d tasks told their begin", begun)
	}
	all.end(all.find("1"), nil, nil, nil)
	if all.add(Task{}, kinds[0], nil) == nil {
		t.Error("a job has ended, and none begins")
	}
}
