package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"ckpt/cmd/ckpt/internal/study"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/testkit"
)

// TestTree is set by a test outside of the package: the root of all commands imports it.
var TestTree Tree

const readToken, changeToken = "a-token-that-only-reads", "a-token-that-may-change"

// newTest returns a server of a copy of a golden store, without a listener.
func newTest(t testing.TB) (*server, http.Handler) {
	t.Helper()
	dir := t.TempDir() + "/golden"
	if err := os.CopyFS(dir, os.DirFS("../../../../testdata/stores/per-rank")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := newServer(ctx, &ui.Globals{Streams: ui.Streams{Err: t.Output(), Out: t.Output()}}, TestTree, []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if s.traces, err = openFolder("../../../../testdata/traces", "traces", "trace"); err != nil {
		t.Fatal(err)
	}
	studies := t.TempDir()
	for name, text := range map[string]string{"bt.d": studyOfTest, "bad.d": "{"} {
		if err := errors.Join(os.Mkdir(studies+"/"+name, 0o700), os.WriteFile(studies+"/"+name+"/"+study.PageFile, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if s.studies, err = openFolder(studies, "studies", "study"); err != nil {
		t.Fatal(err)
	}
	s.guard.cookie, s.guard.tokens = "ckpt-7070", map[digest]right{digestOf(readToken): reading, digestOf(changeToken): changing}
	t.Cleanup(func() {
		cancel()
		s.tasks.work.Wait()
	})
	return s, s.all()
}

// studyOfTest is what a study says, with a bit of all that there is.
const studyOfTest = `{"title":"Checkpoints of bt.S on 16 ranks","note":"A study.","facts":[{"name":"target","text":"bt.S on 16 ranks"}],"sections":[
{"method_phase":"phase 3: model","title":"The model","paragraphs":["Each run was predicted."],"facts":[{"name":"number","text":"40"}],"findings":[{"name":"small","text":"make it larger"}],
"tables":[{"head":["run","|measured"],"rows":[["bt.S.4","1.5 MiB"],["bt.S.9","900 KiB"],["bt.S.16","12 MiB"]],"note":"Measured once."}],
"pictures":[{"caption":"Waste.","chart":{"title":"Waste by interval","x":{"label":"interval","low":10,"high":1000,"log":true,"unit":"s"},"y":{"label":"waste [%]","low":0,"high":5},
"key":[{"name":"expected","color":"--c0"}],"parts":[{"kind":"line","color":"--c0","size":1.5,"at":[[10,4],[100,1],[1000,3]]},{"kind":"points","color":"--c1","shape":"ring","at":[[100,1]]}]}}],"commands":["ckpt predict fit"]}]}`

// ask sends a request of a program with a token.
func ask(h http.Handler, token, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:7070"+path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return newRecorder(h, r)
}

func newRecorder(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// awaitTask waits for the end of the task that an answer names.
func awaitTask(t *testing.T, s *server, w *httptest.ResponseRecorder) Task {
	t.Helper()
	var first Task
	if err := json.Unmarshal(w.Body.Bytes(), &first); w.Code != http.StatusAccepted || err != nil {
		t.Fatalf("%d %s: want a task", w.Code, w.Body)
	}
	s.tasks.work.Wait()
	return s.tasks.find(first.ID).Task
}

// A conformer checks answers against the OpenAPI document.
type conformer struct {
	doc   map[string]any
	cache map[string]*jsonschema.Resolved
}

func newConformer(t *testing.T, s *server) *conformer {
	c := &conformer{cache: map[string]*jsonschema.Resolved{}}
	// Within a schema of its own, the components are definitions.
	text := bytes.ReplaceAll(s.schema, []byte("#/components/schemas/"), []byte("#/$defs/"))
	if err := json.Unmarshal(text, &c.doc); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *conformer) at(path ...string) map[string]any {
	v := any(c.doc)
	for _, name := range path {
		v = v.(map[string]any)[name]
	}
	m, _ := v.(map[string]any)
	return m
}

// check checks an answer of the operation with a method and a path as the document has it.
func (c *conformer) check(method, path string, w *httptest.ResponseRecorder) error {
	answers := c.at("paths", path, strings.ToLower(method), "responses")
	described, ok := answers[fmt.Sprint(w.Code)].(map[string]any)
	if !ok {
		if described, ok = answers["default"].(map[string]any); !ok || w.Code < 400 {
			return fmt.Errorf("%s %s: the document has no answer %d", method, path, w.Code)
		}
	}
	kind := w.Header().Get("Content-Type")
	content, ok := described["content"].(map[string]any)[kind].(map[string]any)
	if !ok {
		return fmt.Errorf("%s %s: %d has the type %q", method, path, w.Code, kind)
	}
	used := map[string]any{}
	c.use(content["schema"], used)
	text, err := json.Marshal(content["schema"])
	if err != nil {
		return err
	}
	key := string(text)
	if c.cache[key] == nil {
		text, err := json.Marshal(map[string]any{"allOf": []any{content["schema"]}, "$defs": used})
		if err != nil {
			return err
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(text, &schema); err != nil {
			return err
		}
		if c.cache[key], err = schema.Resolve(nil); err != nil {
			return err
		}
	}
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if err := c.cache[key].Validate(v); err != nil {
		return fmt.Errorf("%s %s: %s: %w", method, path, w.Body, err)
	}
	return nil
}

// use collects the definitions that a schema needs: the document has many more.
func (c *conformer) use(v any, used map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			c.use(x, used)
		}
	case []any:
		for _, x := range v {
			c.use(x, used)
		}
	case string:
		path, is := strings.CutPrefix(v, "#/$defs/")
		if !is {
			return
		}
		name, field, _ := strings.Cut(path, "/$defs/")
		if field == "" {
			if used[name] == nil {
				used[name] = c.at("components", "schemas", name)
				c.use(used[name], used)
			}
			return
		}
		if used[name] == nil {
			used[name] = map[string]any{"$defs": map[string]any{}}
		}
		if fields := used[name].(map[string]any)["$defs"].(map[string]any); fields[field] == nil {
			fields[field] = c.at("components", "schemas", name, "$defs", field)
			c.use(fields[field], used)
		}
	}
}

// TestAnswersConform: each request that reads answers as the OpenAPI document says, and so do
// refusals.
func TestAnswersConform(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	c := newConformer(t, s)
	name := jobOf(t, s)
	for _, test := range []struct {
		method, path, actual, body string
		status                     int
	}{
		{"GET", "/api/stores", "", "", 200},
		{"GET", "/api/session", "", "", 200},
		{"GET", "/api/tasks", "", "", 200},
		{"GET", "/api/openapi.json", "", "", 200},
		{"GET", "/api/stores/{store}/jobs", "/api/stores/golden/jobs", "", 200},
		{"GET", oneJob, "/api/stores/golden/jobs/" + name, "", 200},
		{"GET", oneJob, "/api/stores/other/jobs/" + name, "", 404},
		{"GET", oneJob, "/api/stores/golden/jobs/nosuch", "", 404},
		{"GET", oneJob, "/api/stores/golden/jobs/a@b", "", 400},
		{"GET", oneJob + "/checkpoints", "/api/stores/golden/jobs/" + name + "/checkpoints?last=1", "", 200},
		{"GET", oneJob + "/checkpoints", "/api/stores/golden/jobs/" + name + "/checkpoints?first=1", "", 400},
		{"GET", oneJob + "/checkpoints/{n}", "/api/stores/golden/jobs/" + name + "/checkpoints/1", "", 200},
		{"GET", oneJob + "/checkpoints/{n}", "/api/stores/golden/jobs/" + name + "/checkpoints/99", "", 404},
		{"GET", oneJob + "/recovery-line", "/api/stores/golden/jobs/" + name + "/recovery-line", "", 200},
		{"GET", oneJob + "/history", "/api/stores/golden/jobs/" + name + "/history", "", 200},
		{"GET", "/api/predict/size/{app}", "/api/predict/size/bt.D.400?nodes=10", "", 200},
		{"GET", "/api/predict/size/{app}", "/api/predict/size/bt.D?np=400&nodes=10", "", 200},
		{"GET", "/api/predict/size/{app}", "/api/predict/size/heat.yaml", "", 400},
		{"GET", "/api/predict/size/{app}", "/api/predict/size/bt.D.400?model=/etc/passwd", "", 400},
		{"GET", "/api/predict/time/{app}", "/api/predict/time/bt.D.64?nodes=2", "", 200},
		{"GET", "/api/predict/time/{app}", "/api/predict/time/bt.D.64?nodes=2&on=eos-spider2", "", 200},
		{"GET", "/api/predict/time/{app}", "/api/predict/time/bt.D.64?nodes=2&on=/etc/passwd", "", 400},
		{"GET", "/api/predict/count/{app}", "/api/predict/count/bt.D.64?nodes=2&overhead=30%25&app-time=1137.53", "", 200},
		{"GET", "/api/predict/plan/{app}", "/api/predict/plan/bt.D.64?overhead=30%25&app-time=1137.53&max-nodes=4", "", 200},
		{"GET", "/api/predict/storage/{app}", "/api/predict/storage/bt.D.64?nodes=2&mtbf=24h&waste=2%25", "", 200},
		{"GET", oneJob + "/prunable", "/api/stores/golden/jobs/" + name + "/prunable?keep=1", "", 200},
		{"GET", oneJob + "/checkpoints/{n}/trace", "/api/stores/golden/jobs/" + name + "/checkpoints/1/trace", "", 200},
		{"GET", oneJob + "/checkpoints/{n}/trace", "/api/stores/golden/jobs/" + name + "/checkpoints/1/trace?thresholds=/etc/passwd", "", 400},
		{"GET", oneJob + "/checkpoints/{n}/trace/tiles", "/api/stores/golden/jobs/" + name + "/checkpoints/1/trace/tiles?by=file&tiles=20", "", 200},
		{"GET", oneJob + "/checkpoints/{n}/trace/tiles", "/api/stores/golden/jobs/" + name + "/checkpoints/99/trace/tiles", "", 404},
		{"GET", "/api/traces", "", "", 200},
		{"GET", "/api/traces/tiles", "/api/traces/tiles?trace=cp-large.strace.zst&from=0&to=0.01", "", 200},
		{"GET", "/api/traces/tiles", "/api/traces/tiles?trace=README.md", "", 400},
		{"GET", "/api/traces/tiles", "/api/traces/tiles?trace=nosuch", "", 404},
		{"GET", "/api/traces/tiles", "/api/traces/tiles?trace=../stores/per-rank/jobs/job/traces/0001.trace", "", 400},
		{"GET", "/api/traces/tiles", "/api/traces/tiles?trace=/etc/passwd", "", 400},
		{"GET", "/api/traces/tiles", "/api/traces/tiles?trace=cp-large.strace.zst&from=soon", "", 400},
		{"GET", "/api/traces/tiles", "/api/traces/tiles?trace=cp-large.strace.zst&tiles=1000000000", "", 400},
		{"GET", "/api/studies", "", "", 200},
		{"GET", "/api/studies/page", "/api/studies/page?study=bt.d", "", 200},
		{"GET", "/api/studies/page", "/api/studies/page?study=bad.d", "", 409},
		{"GET", "/api/studies/page", "/api/studies/page?study=nosuch", "", 404},
		{"GET", "/api/studies/page", "/api/studies/page?study=../bt.d", "", 400},
		{"GET", "/api/studies/page", "/api/studies/page?study=/etc", "", 400},
		{"GET", "/api/studies/page", "/api/studies/page?file=bt.d", "", 400},
		{"GET", oneJob + "/evaluation", "/api/stores/golden/jobs/" + name + "/evaluation", "", 200},
		{"GET", "/api/predict/scale/{app}", "/api/predict/scale/bt.D?np=25,64", "", 200},
		{"GET", "/api/layout/{app}", "/api/layout/bt.C.64?nodes=4&layout=shared&on=eos-spider2", "", 200},
		{"GET", "/api/layout/{app}", "/api/layout/bt.D.66049?nodes=5000", "", 400},
		{"GET", "/api/layout/{app}", "/api/layout/bt.D?nodes=5000&np=66049", "", 400},
		{"GET", "/api/predict/size/{app}", "/api/predict/size/bt.D.66049?nodes=5000", "", 200},
		{"GET", "/api/predict/size/{app}", "/api/predict/size/bt.D.1050625?nodes=65536", "", 400},
		{"POST", "/api/simulate", "/api/simulate", `{"failures":"/etc/passwd"}`, 400},
		{"POST", "/api/simulate", "/api/simulate", `{"runs":1000000}`, 400},
		{"POST", "/api/tune/{app}", "/api/tune/bt.C.64", `{"on":"/etc/passwd"}`, 400},
		{"GET", "/api/interval", "/api/interval?cost=5m&mtbf=24h&restart=10m", "", 200},
		{"GET", "/api/interval", "/api/interval?cost=5m", "", 400},
		{"POST", oneJob + "/prune", "/api/stores/golden/jobs/" + name + "/prune", `{"keep":-`, 400},
		{"POST", oneJob + "/prune", "/api/stores/golden/jobs/" + name + "/prune", `{"keep":[[1]]}`, 400},
		{"POST", "/api/stores/{store}/jobs", "/api/stores/golden/jobs", `{"app":"bt.S.4"}`, 400},
		{"POST", "/api/stores/{store}/jobs", "/api/stores/golden/jobs", `{"app":"./bt.S.4","job":"x"}`, 400},
		{"POST", "/api/stores/{store}/jobs", "/api/stores/golden/jobs", `{"app":"bt.S.4","job":"x","launcher":"sh"}`, 400},
	} {
		actual := test.actual
		if actual == "" {
			actual = test.path
		}
		w := ask(h, changeToken, test.method, actual, test.body)
		if err := c.check(test.method, test.path, w); err != nil {
			t.Error(err)
		}
		if w.Code != test.status {
			t.Errorf("%s %s: %d, want %d: %s", test.method, actual, w.Code, test.status, w.Body)
		}
	}
}

// TestParametersElsewhere: a parameter in the other place, twice, or in a query that cannot be read
// is refused by name, and nothing is removed.
func TestParametersElsewhere(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	job := "/api/stores/golden/jobs/" + jobOf(t, s)
	for _, test := range []struct{ method, path, body, names string }{
		{"POST", job + "/prune?dry-run=true", `{"keep":1}`, "dry-run"},
		{"POST", job + "/prune", `{"keep":[]}`, "keep"},
		{"POST", job + "/prune", `{"keep":[2,1]}`, "keep"},
		{"POST", job + "/prune", `{"keep":1.5}`, "keep"},
		{"DELETE", job + "?dry-run=true;x=1", "", "semicolon"},
		{"DELETE", job, `{"dry-run":true}`, "dry-run"},
		{"DELETE", job + "?dry-run=true&dry-run=false", "", "dry-run"},
		{"DELETE", "/api/tasks/1?now=true", "", "now"},
		{"GET", "/api/interval?cost=5m&mtbf=24h&restart=10%", "", "%"},
		{"GET", "/api/interval", `{"cost":"5m"}`, "cost"},
		{"GET", "/api/predict/size/bt.D.400?nodes=10&nodes=20", "", "nodes"},
		{"GET", job + "/history?last=1", "", "last"},
		{"GET", job + "/checkpoints/1/trace/tiles?trace=zzz", "", "trace"},
		{"GET", "/api/traces/tiles?trace=cp-large.strace.zst&by=rank&by=file", "", "by"},
		{"GET", "/api/events?store=golden", "", "store"},
		{"GET", "/metrics?job=x", "", "job"},
	} {
		var p problem
		w := ask(h, changeToken, test.method, test.path, test.body)
		if err := json.Unmarshal(w.Body.Bytes(), &p); w.Code != 400 || err != nil || !strings.Contains(p.Detail, test.names) || p.Hint == "" || strings.Contains(p.Detail, "strconv") {
			t.Errorf("%s %s %s: %d %+v", test.method, test.path, test.body, w.Code, p)
		}
	}
	if k := s.tasks.all(); len(k) > 0 {
		t.Errorf("tasks have begun: %+v", k)
	}
	for _, body := range []string{`{"keep":3.0,"dry-run":true}`, `{"keep":3e0,"dry-run":"true"}`} {
		if k := awaitTask(t, s, ask(h, changeToken, "POST", job+"/prune", body)); k.State != taskDone {
			t.Errorf("%s: %+v", body, k)
		}
	}
	if w := ask(h, readToken, "GET", "/api/predict/plan/bt.D.64?overhead=30%25&app-time=1137.53&max-nodes=4&mpi=mpich&mpi=openmpi", ""); w.Code != 200 {
		t.Errorf("a parameter with several values: %d %s", w.Code, w.Body)
	}
	if w := ask(h, readToken, "HEAD", job, ""); w.Code != 200 {
		t.Errorf("HEAD: %d %s", w.Code, w.Body)
	}
}

// TestTraces: the list has what is a trace, those below too, and no path and no link leads out of
// the directory. A trace that has changed is read again.
func TestTraces(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	dir, outside := t.TempDir(), t.TempDir()
	trace, err := os.ReadFile("../../../../testdata/traces/cp-large.strace.zst")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Mkdir(dir+"/below", 0o700), os.WriteFile(dir+"/below/a.strace.zst", trace, 0o600), os.WriteFile(dir+"/notes", []byte("none"), 0o600),
		os.WriteFile(outside+"/b.strace.zst", trace, 0o600), os.Symlink(outside+"/b.strace.zst", dir+"/b.strace.zst"), os.Symlink(outside, dir+"/all")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s.traces, err = openFolder(dir, "traces", "trace"); err != nil {
		t.Fatal(err)
	}
	var list []traceFile
	if err := json.Unmarshal(ask(h, readToken, "GET", "/api/traces", "").Body.Bytes(), &list); err != nil || len(list) != 1 || list[0].Name != "below/a.strace.zst" {
		t.Errorf("%v %v", list, err)
	}
	for name, want := range map[string]int{"below/a.strace.zst": 200, "below/../below/a.strace.zst": 200, "b.strace.zst": 404, "all/b.strace.zst": 404, "below": 404, "notes": 400, "../x": 400, "": 400} {
		if w := ask(h, readToken, "GET", "/api/traces/tiles?trace="+escaped(name), ""); w.Code != want {
			t.Errorf("%q: %d %s, want %d", name, w.Code, w.Body, want)
		}
	}
	if err := os.WriteFile(dir+"/below/a.strace.zst", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w := ask(h, readToken, "GET", "/api/traces/tiles?trace=below/a.strace.zst", ""); w.Code != 400 {
		t.Errorf("a trace that is empty now: %d %s", w.Code, w.Body)
	}
}

// TestRequestsAtOnce: requests at the same time do not disturb each other.
func TestRequestsAtOnce(t *testing.T) {
	t.Parallel()
	_, h := newTest(t)
	want := ask(h, readToken, "GET", "/api/interval?cost=5m&mtbf=24h&restart=10m", "").Body.String()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := ask(h, readToken, "GET", "/api/interval?cost=5m&mtbf=24h&restart=10m", "").Body.String(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			ask(h, readToken, "GET", "/api/stores/golden/jobs", "")
			ask(h, readToken, "GET", "/api/predict/size/bt.B.4?engine=ckpt", "")
			ask(h, readToken, "GET", "/metrics", "")
		})
	}
	all.Wait()
}

// jobOf returns the first job of the store.
func jobOf(t *testing.T, s *server) string {
	t.Helper()
	s.watch.look(t.Context(), true)
	var names []string
	for _, seen := range s.watch.known("golden") {
		names = append(names, seen.name)
	}
	if len(names) == 0 {
		t.Fatal("the store has no job")
	}
	return slices.Min(names)
}

// TestTasks: a verification is a task with its result, damage is its problem, and a prune and a
// removal do what they say.
func TestTasks(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	name := jobOf(t, s)
	job := "/api/stores/golden/jobs/" + name
	c := newConformer(t, s)
	w := ask(h, readToken, "POST", job+"/verify", "{}")
	if err := c.check("POST", oneJob+"/verify", w); err != nil {
		t.Error(err)
	}
	if k := awaitTask(t, s, w); k.State != taskDone || k.Result == nil || k.Problem != nil {
		t.Errorf("%+v: want the result of a verification", k)
	}
	w = ask(h, readToken, "GET", "/api/tasks", "")
	if err := c.check("GET", "/api/tasks", w); err != nil {
		t.Error(err)
	}
	if k := awaitTask(t, s, ask(h, readToken, "POST", job+"/diff", `{"a":1,"b":2}`)); k.State != taskDone {
		t.Errorf("%+v: want a comparison", k)
	}
	if k := awaitTask(t, s, ask(h, changeToken, "POST", job+"/stop", "{}")); k.State != taskFailed || k.Problem.Status != http.StatusConflict || k.Problem.Hint == "" {
		t.Errorf("%+v: want the error of a job that does not run, with its hint", k)
	}
	if k := awaitTask(t, s, ask(h, readToken, "POST", "/api/simulate", `{"nodes":64,"node-bytes":"64GiB","store-rate":"50GiB/s","node-mtbf":"5y","app-time":"10d","runs":20}`)); k.State != taskDone || k.Result == nil {
		t.Errorf("%+v: want a simulation", k)
	}
	damageNewest(t, s, name)
	k := awaitTask(t, s, ask(h, readToken, "POST", job+"/verify", "{}"))
	if k.State != taskFailed || k.Problem == nil || k.Problem.Code != ui.ExitDamage || k.Result == nil {
		t.Errorf("%+v: want damage, and the list of it", k)
	}
	if k := awaitTask(t, s, ask(h, changeToken, "DELETE", job, "")); k.State != taskDone {
		t.Errorf("%+v: want the job removed", k)
	}
	if w := ask(h, readToken, "GET", job, ""); w.Code != http.StatusNotFound {
		t.Errorf("the removed job: %d", w.Code)
	}
}

// damageNewest flips a byte in the middle of the largest file of a job.
func damageNewest(t *testing.T, s *server, name string) {
	t.Helper()
	dir := s.stores[0].Dir + "/jobs/" + name + "/0002"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "rank") || strings.HasSuffix(e.Name(), ".img") {
			file := dir + "/" + e.Name()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text[len(text)/2] ^= 1
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s has no image: %v", dir, entries)
}

// TestStrangers: a sender without a token, with another one, with less right, of another origin,
// under another name, or after its time is refused, and nothing happens.
func TestStrangers(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	now := time.Now()
	s.guard.now = func() time.Time { return now }
	var link string
	s.guard.link = func(key string) { link = key }
	s.guard.newLink()
	send := func(change func(*http.Request), method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://localhost:7070"+path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	with := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	job := "/api/stores/golden/jobs/" + jobOf(t, s)
	for _, test := range []struct {
		who          string
		change       func(*http.Request)
		method, path string
		status       int
	}{
		{"no token", func(*http.Request) {}, "GET", "/api/stores", 401},
		{"no token, the page", func(*http.Request) {}, "GET", "/", 401},
		{"no token, metrics", func(*http.Request) {}, "GET", "/metrics", 401},
		{"another token", with("another-token-of-its-length"), "GET", "/api/stores", 401},
		{"a token that reads", with(readToken), "POST", job + "/stop", 403},
		{"a token that reads", with(readToken), "DELETE", job, 403},
		{"another name", func(r *http.Request) { with(changeToken)(r); r.Host = "evil.example:7070" }, "GET", "/api/stores", 421},
		{"a form of another site", func(r *http.Request) { with(changeToken)(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }, "POST", job + "/stop", 403},
		{"a page of another origin", func(r *http.Request) { with(changeToken)(r); r.Header.Set("Origin", "http://localhost:8080") }, "POST", job + "/stop", 403},
		{"a form", func(r *http.Request) {
			with(changeToken)(r)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}, "POST", job + "/stop", 400},
		{"another key", func(*http.Request) {}, "GET", "/enter?key=" + newSecret(), 401},
		{"the link", func(*http.Request) {}, "GET", "/enter?key=" + link, 303},
		{"the link again", func(*http.Request) {}, "GET", "/enter?key=" + link, 401},
	} {
		used := link
		w := send(test.change, test.method, test.path)
		if w.Code != test.status {
			t.Errorf("%s: %s %s: %d, want %d: %s", test.who, test.method, test.path, w.Code, test.status, w.Body)
		}
		if w.Code == 303 {
			if used == link {
				t.Error("the link was used, and is still the same")
			}
			c := w.Result().Cookies()[0]
			if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
				t.Errorf("the cookie is %v", c)
			}
			cookie := func(r *http.Request) { r.AddCookie(c) }
			if w := send(cookie, "GET", "/api/stores"); w.Code != 200 {
				t.Errorf("the browser that was let in: %d", w.Code)
			}
			now = now.Add(sessionLife + time.Second)
			if w := send(cookie, "GET", "/api/stores"); w.Code != 401 {
				t.Errorf("the browser after its time: %d", w.Code)
			}
			link = used
		}
		now = now.Add(time.Minute) // for the bounds on requests
	}
	if len(s.tasks.all()) > 0 {
		t.Errorf("tasks have begun: %+v", s.tasks.all())
	}
	refused := 0
	for range 2 * strangerBurst {
		if send(func(*http.Request) {}, "GET", "/api/stores").Code == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < strangerBurst/2 {
		t.Errorf("%d of %d requests of a stranger were too many", refused, 2*strangerBurst)
	}
}

// TestFuzzedRequests: whatever a request has, the answer is an answer or a problem of the sender,
// and conforms.
func TestFuzzedRequests(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	s.guard.now = func() func() time.Time {
		at := time.Now()
		return func() time.Time { at = at.Add(time.Second); return at }
	}()
	c := newConformer(t, s)
	n := 500
	if testkit.Nightly() {
		n = 10000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	name := jobOf(t, s)
	for range n {
		o := &operations[random.IntN(len(operations))]
		if o.how != answer {
			fuzzTask(t, c, h, random, o)
			continue
		}
		path := fuzzPath(random, o, name)
		var query []string
		for _, p := range o.parameters() {
			if random.IntN(4) == 0 {
				query = append(query, escaped(p)+"="+escaped(fuzzValue(random)))
			}
		}
		if random.IntN(10) == 0 {
			query = append(query, escaped(fuzzValue(random))+"=1")
		}
		w := ask(h, changeToken, "GET", path+"?"+strings.Join(query, "&"), "")
		judge(t, c, o, path+"?"+strings.Join(query, "&"), w)
	}
}

// judge checks an answer to a fuzzed request. A fuzzed path may lead to the page, or
// to another operation.
func judge(t *testing.T, c *conformer, o *operation, sent string, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code >= 500 {
		t.Errorf("%s %s: %d %s", o.method, sent, w.Code, w.Body)
	}
	if w.Code == http.StatusTemporaryRedirect || w.Code == http.StatusMovedPermanently { // a path with ..
		return
	}
	if err := c.check(o.method, o.path, w); err != nil && w.Code != 200 {
		t.Errorf("sent %s: %v", sent, err)
	}
}

// fuzzTask sends a body that no task begins with: a parameter is unknown, or the body no object.
func fuzzTask(t *testing.T, c *conformer, h http.Handler, random *rand.Rand, o *operation) {
	t.Helper()
	if o.method == http.MethodDelete {
		return
	}
	body := fmt.Sprintf(`{%q:%q,"unknown-%d":1}`, fuzzValue(random), fuzzValue(random), random.IntN(9))
	if random.IntN(2) == 0 {
		body = fuzzValue(random) + "{"
	}
	w := ask(h, changeToken, o.method, fuzzPath(random, o, "nosuch"), body)
	if w.Code < 300 {
		t.Errorf("%s %s %s: %d", o.method, o.path, body, w.Code)
	}
	judge(t, c, o, body, w)
}

func fuzzPath(random *rand.Rand, o *operation, job string) string {
	path := o.path
	for name, good := range map[string]string{"store": "golden", "job": job, "n": "1", "app": "bt.B.4"} {
		if random.IntN(4) == 0 {
			good = escaped(fuzzValue(random))
		}
		path = strings.ReplaceAll(path, "{"+name+"}", good)
	}
	return path
}

// fuzzValue returns a value that some flag takes, or none does.
func fuzzValue(random *rand.Rand) string {
	known := []string{"", "0", "1", "-1", "4", "99999999999999999999", "1e9", "NaN", "Inf", "-0", "10%", "1h", "24h", "-5m", "1GiB", "0x10", "true", "none",
		"ckpt", "dmtcp", "full", "simple", "zstd", "application", "semi", "optimistic", "eos-spider2", "bt.B.4", "bt.B", "lu.C.16", "n=4096", "../../../etc/passwd",
		"/etc/passwd", "--store=/", "a b", "a\x00b", "ü", "{job}", "partner:2", "rs:4+2", "8,8", "1,2,3", "total", "time", "2%", "0.5", "thesis", strings.Repeat("9", 300)}
	if random.IntN(8) > 0 {
		return known[random.IntN(len(known))]
	}
	b := make([]byte, random.IntN(12))
	for i := range b {
		b[i] = byte(random.UintN(256))
	}
	return string(b)
}

func escaped(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
