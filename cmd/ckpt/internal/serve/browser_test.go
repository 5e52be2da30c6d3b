package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"ckpt/coordinator/job"
	"ckpt/internal/testkit"
)

// TestBrowser: in a browser a user launches a job, sees its checkpoints, a failure and the restart,
// stops, restarts and verifies it, looks at the I/O of a checkpoint, and asks what checkpoints would cost. With CKPT_SCREENSHOTS=DIR
// it leaves pictures of each view, with CKPT_AXE=FILE it has axe-core look for violations.
func TestBrowser(t *testing.T) {
	u := newGuest(t)
	u.do("launch", chromedp.SetValue("[name=job]", "seen"), chromedp.SetValue("[name=iterations]", "10000000"), chromedp.SetValue("[name=interval]", "2s"), chromedp.Click("#launch button"))
	u.await("the job runs", `[...document.querySelectorAll("#jobs tbody tr")].some((r) => r.textContent.includes("seen") && r.textContent.includes("running"))`)
	u.look("jobs")
	u.do("open the job", chromedp.Evaluate[chromedp.Void](`location.hash = "#job/golden/seen"`))
	u.await("two checkpoints", `document.querySelectorAll("#checkpoints tbody tr").length >= 2`)
	if err := syscall.Kill(u.status().PIDs[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	u.await("the failure and the restart", `document.getElementById("log").textContent.includes("SIGKILL") && document.getElementById("log").textContent.includes("restarted in")`)
	u.await("its charts, over time", `document.querySelector("#life .u-legend").textContent.includes("time") && document.querySelector("#zones canvas") && document.querySelector("#versions canvas")`)
	u.look("job")
	u.press("Stop")
	u.await("the end", `document.getElementById("facts").textContent.includes("stopped")`)
	u.press("Restart")
	u.await("the job runs again", `document.getElementById("facts").textContent.includes("running")`)
	u.press("Stop")
	u.await("the second end", `document.getElementById("facts").textContent.includes("stopped")`)
	u.press("Verify")
	u.await("the verification", `document.getElementById("done").textContent.includes(" 0 damaged places")`)
	u.do("the trace of a checkpoint", chromedp.Click("#checkpoints tbody a"))
	u.await("its tiles", `document.querySelectorAll("#t-rows tbody tr").length > 0`)
	u.do("files", chromedp.Evaluate[chromedp.Void](`document.getElementById("t-by").value = "file"; askTrace()`))
	u.await("files", `document.getElementById("t-rows").textContent.includes(".img")`)
	u.do("zoom", chromedp.Click("#t-in"))
	u.await("half of the time", `trace.answer.to_s - trace.answer.from_s < 0.6 * (trace.answer.trace_end_s - trace.answer.trace_start_s)`)
	u.look("trace")
	u.do("what if", chromedp.Evaluate[chromedp.Void](`location.hash = "#what-if"`))
	u.await("an answer", `document.querySelector("#w-interval .big") && document.querySelector("#waste canvas")`)
	u.look("what-if")
	u.do("tasks", chromedp.Evaluate[chromedp.Void](`location.hash = "#tasks"`))
	u.await("the tasks", `document.querySelectorAll("#tasks tbody tr").length >= 5`)
	u.look("tasks")
}

// TestBrowserStudies: a browser shows a study with its tables and its charts; a head sorts a table.
func TestBrowserStudies(t *testing.T) {
	u := newGuest(t)
	u.do("studies", chromedp.Evaluate[chromedp.Void](`location.hash = "#studies/bt.d"`))
	u.await("the study", `document.querySelector("#study .chart canvas") && document.getElementById("study").textContent.includes("Each run was predicted.")`)
	const column = `[...document.querySelectorAll("#study tbody td.n")].map((c) => c.textContent).join()`
	u.await("the order of the study", column+` === "1.5 MiB,900 KiB,12 MiB"`)
	u.do("sort", chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("#study th button")[1].click()`))
	u.await("the order of the sizes", column+` === "900 KiB,1.5 MiB,12 MiB" && document.querySelector("#study th[aria-sort=ascending]")`)
	u.look("studies")
}

// TestBrowserReports: a browser shows the pages that ckpt trace report and ckpt study write, from files.
func TestBrowserReports(t *testing.T) {
	u := newGuest(t)
	dir := t.TempDir()
	events, err := filepath.Abs("../../../../testdata/traces/deeplearning.events")
	if err != nil {
		t.Fatal(err)
	}
	for page, args := range map[string][]string{
		"trace-report": {"trace", "report", events},
		"study-report": {"study", "bt.S", "--target", "16", "--nodes", "4", "--overhead", "20%", "--app-time", "2h", "--mtbf", "24h"},
	} {
		file := filepath.Join(dir, page+".html")
		cmd := exec.Command(os.Args[0], append(args, "-o", file)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", cmd, err, out)
		}
		u.do("open "+page, chromedp.Navigate("file://"+file))
		u.do("draw all charts, as for paper", chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("beforeprint"))`))
		u.await("its charts and contents", `[...document.querySelectorAll(".chart")].every((c) => c.querySelector("canvas")) && document.querySelector("nav a")`)
		u.look(page)
	}
}

// newGuest lets a browser in.
func newGuest(t *testing.T) *guest {
	t.Helper()
	testkit.All(t, "chromium")
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	if !testkit.Nightly() && os.Getenv("CKPT_SCREENSHOTS") == "" {
		t.Skip("a browser and a job of its own: CKPT_NIGHTLY=1 runs them")
	}
	library, err := filepath.Abs("../../../../testdata/stores/program")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CKPT_TEST_LIBRARY", library)
	s, h := newTest(t)
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	go s.watch.run(t.Context())
	link := make(chan string, 8)
	s.guard.link = func(key string) { link <- key }
	s.guard.newLink()
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 9*time.Minute) // for a page that never gets there
	t.Cleanup(cancel)
	u := &guest{t: t, ctx: ctx, s: s}
	u.do("enter", chromedp.EmulateViewport(1280, 900), chromedp.Navigate(web.URL+"/enter?key="+<-link), chromedp.WaitVisible("#launch"))
	return u
}

// A guest is one who uses a page.
type guest struct {
	t   *testing.T
	ctx context.Context
	s   *server
}

func (u *guest) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	u.t.Helper()
	if err := chromedp.Do(u.ctx, actions...); err != nil {
		u.t.Fatalf("%s: %v", what, err)
	}
}

// await waits until an expression holds in the page.
func (u *guest) await(what, expression string) {
	u.t.Helper()
	for until := time.Now().Add(testkit.Patience); ; time.Sleep(50 * time.Millisecond) {
		holds, err := chromedp.Run(u.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && holds {
			return
		}
		if err != nil || time.Now().After(until) {
			text, _ := chromedp.Run(u.ctx, chromedp.Evaluate[string]("document.body.innerText"))
			u.t.Fatalf("%s: %v; the page says\n%s", what, err, text)
		}
	}
}

// press clicks a button of a job, once it can be clicked.
func (u *guest) press(name string) {
	u.t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll("#actions button")].find((b) => b.textContent === %q)`, name)
	u.await("the button "+name, fmt.Sprintf("%s && !%s.disabled", button, button))
	u.do("press "+name, chromedp.Evaluate[chromedp.Void](button+".click()"))
}

// status is the state of the job that the user has launched.
func (u *guest) status() *job.Status {
	for _, seen := range u.s.watch.known("golden") {
		if seen.name == "seen" {
			return seen.status
		}
	}
	u.t.Fatal("the watcher does not know the job")
	return nil
}

// look leaves pictures of a view in both widths and colours, and has axe-core look at it. No
// width makes the page wider than the window.
func (u *guest) look(name string) {
	u.t.Helper()
	for _, width := range []int64{1280, 400} {
		for _, scheme := range []string{"light", "dark"} {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
			if _, err := chromedp.Call(u.ctx, emulation.SetEmulatedMedia, media); err != nil {
				u.t.Fatal(err)
			}
			u.do("look at "+name, chromedp.EmulateViewport(width, 900), chromedp.Sleep(300*time.Millisecond))
			wide, err := chromedp.Run(u.ctx, chromedp.Evaluate[bool]("document.documentElement.scrollWidth > innerWidth"))
			if err != nil {
				u.t.Fatal(err)
			}
			if wide {
				u.t.Errorf("%s is wider than %d pixels", name, width)
			}
			if dir := os.Getenv("CKPT_SCREENSHOTS"); dir != "" {
				picture, err := chromedp.Run(u.ctx, chromedp.FullScreenshot(100))
				if err != nil {
					u.t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o644); err != nil {
					u.t.Fatal(err)
				}
			}
			u.axe(fmt.Sprintf("%s, %d pixels, %s", name, width, scheme))
		}
	}
	u.do("back", chromedp.EmulateViewport(1280, 900))
}

func (u *guest) axe(where string) {
	u.t.Helper()
	file := os.Getenv("CKPT_AXE")
	if file == "" {
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		u.t.Fatal(err)
	}
	u.do("load axe-core", chromedp.Evaluate[chromedp.Void](string(text)+";0"))
	found, err := chromedp.Run(u.ctx, chromedp.Evaluate[string](`axe.run().then((r) => JSON.stringify(r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join(" | "))))`, chromedp.EvalAwaitPromise))
	if err != nil {
		u.t.Fatal(err)
	}
	var list []string
	if err := json.Unmarshal([]byte(found), &list); err != nil || len(list) > 0 {
		u.t.Errorf("%s: %v %s", where, err, strings.Join(list, "\n"))
	}
}
