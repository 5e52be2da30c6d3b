package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ckpt/cmd/ckpt/internal/scripttest"
	"ckpt/internal/testkit"
)

// TestBlocks types the blocks of README.md and docs/*.md, page by page, each
// page in a directory of its own, with the testdata of a clone: every command must end with status 0, and
// print what the page shows. Numbers, times and padding may differ, and a line
// of ... stands for any lines. A comment before a block may say
//
//	<!-- needs: mpicc, mpiexec -->   what the machine must have, in the words of package needs
//	<!-- status: 3 -->               the exit status of its last command
//	<!-- not typed: a reason -->     a form, or a command that takes minutes
//	<!-- nightly: a reason -->       typed with CKPT_NIGHTLY
//	<!-- file: heat.c -->            the contents of a file, not a session
//	<!-- stand-in: dmtcp -->         typed with programs that answer like DMTCP, and count
//
// A block is typed if it has lines that begin with "$ ", or only lines of
// commands of ckpt.
func TestBlocks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("only %d pages: %v", len(pages), err)
	}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := blocksOf(string(text))
		if len(blocks) == 0 {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			typist := newTypist(t)
			for _, b := range blocks {
				testkit.Costly(t)
				typist.enter(b)
			}
		})
	}
}

// A block is what a page shows of a session, or of a file.
type block struct {
	line     int
	file     string
	contents string
	needs    []string
	status   int
	notTyped string
	standIn  string // dmtcp; objects: an object storage, which $STORE names
	commands []shown
}

// A shown command and the lines that it prints. Silent: the page shows no lines.
type shown struct {
	text   string
	output []string
}

var blockComment = regexp.MustCompile(`^<!-- (needs|status|not typed|nightly|file|stand-in): (.*) -->$`)

// blocksOf returns the blocks of a page with commands.
func blocksOf(page string) (all []block) {
	var next block
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		if m := blockComment.FindStringSubmatch(lines[i]); m != nil {
			switch m[1] {
			case "needs":
				next.needs = strings.Split(m[2], ", ")
			case "status":
				fmt.Sscan(m[2], &next.status)
			case "not typed":
				next.notTyped = m[2]
			case "nightly":
				if !testkit.Nightly() {
					next.notTyped = m[2]
				}
			case "stand-in":
				next.standIn = m[2]
			case "file":
				next.file = m[2]
			}
			continue
		}
		if !strings.HasPrefix(lines[i], "```") {
			if lines[i] != "" {
				next = block{}
			}
			continue
		}
		next.line = i + 1
		var body []string
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			body = append(body, lines[i])
		}
		if next.file != "" {
			next.contents = strings.Join(body, "\n") + "\n"
		} else {
			next.commands = commandsOf(body)
		}
		if next.file != "" || len(next.commands) > 0 {
			all = append(all, next)
		}
		next = block{}
	}
	return all
}

// commandsOf returns the commands of a block, with their output.
func commandsOf(body []string) (commands []shown) {
	prompt := slices.ContainsFunc(body, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	bare := !prompt && !slices.ContainsFunc(body, func(l string) bool {
		return !regexp.MustCompile(`^(CKPT_\w+=\S+ )*(ckpt|go) |^$|^ssh `).MatchString(l)
	})
	for _, l := range body {
		last := len(commands) - 1
		if c, ok := strings.CutPrefix(l, "$ "); ok {
			commands = append(commands, shown{text: c})
		} else if c, ok := strings.CutPrefix(l, "> "); ok && prompt && last >= 0 {
			commands[last].text += "\n" + c
		} else if bare && l != "" {
			commands = append(commands, shown{text: l})
		} else if prompt && last >= 0 {
			commands[last].output = append(commands[last].output, l)
		}
	}
	return commands
}

// A typist types the blocks of a page into a shell.
type typist struct {
	t   *testing.T
	dir string
}

func newTypist(t *testing.T) *typist {
	t.Helper()
	p := &typist{t: t, dir: t.TempDir()}
	// Directories that are copied from a clone that cannot be written cannot be either.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", p.dir).Run() })
	// The samples of a clone.
	for _, name := range []string{"testdata", "docs"} {
		samples, err := filepath.Abs("../../" + name)
		if err == nil {
			err = os.Symlink(samples, filepath.Join(p.dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// enter types a block into one shell, since a command may wait for another in
// the background, and compares what it prints.
func (p *typist) enter(b block) {
	p.t.Helper()
	if b.notTyped != "" {
		return
	}
	if b.file != "" {
		if err := os.WriteFile(filepath.Join(p.dir, b.file), []byte(b.contents), 0o600); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	if testkit.Left(p.t, fmt.Sprintf("line %d", b.line), b.needs...) {
		return
	}
	var script strings.Builder
	for i, c := range b.commands {
		text := strings.TrimSpace(regexp.MustCompile(`\s+#.*`).ReplaceAllString(c.text, ""))
		if job, ok := strings.CutSuffix(text, "&"); ok {
			// A user types the next command when the job has begun, not in the
			// same moment. Of one that writes elsewhere the block waits itself.
			// The log of an earlier block must be gone before the wait looks at it.
			text = fmt.Sprintf("rm -f background.log; { %s; } > background.log 2>&1 &", job)
			if !strings.Contains(job, ">") {
				text += " for i in $(seq 600); do [ -s background.log ] && break; sleep 0.1; done"
			}
		}
		fmt.Fprintf(&script, "echo '%s %d'\n%s\necho '%s' $?\n", beginMark, i, text, endMark)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script.String())
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "COLUMNS=", "LC_ALL=C.UTF-8", "CKPT_STORE=", "NO_COLOR=1",
		// Open MPI refuses root, and looks into /sys links that a container may lack.
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "HWLOC_COMPONENTS=-linuxio,-pci,-opencl,-gl")
	switch b.standIn {
	case "dmtcp":
		cmd.Env = append(cmd.Env, "PATH="+fakesOfDMTCP(p.t)+":"+os.Getenv("PATH"))
	case "objects":
		g, err := testkit.StartGateway(p.t.TempDir(), "bucket")
		if err != nil {
			p.t.Fatal(err)
		}
		defer g.End()
		cmd.Env = append(append(cmd.Env, g.Environment...), "STORE="+g.URL("bucket", "page"))
	}
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	p.compare(b, out.String(), err)
}

const beginMark, endMark = "--- types", "--- status"

// compare compares the output of a block with what the page shows.
func (p *typist) compare(b block, out string, err error) {
	p.t.Helper()
	parts := strings.Split(out, beginMark+" ")[1:]
	if len(parts) != len(b.commands) {
		p.t.Errorf("line %d: the shell ended early (%v):\n%s", b.line, err, out)
		return
	}
	for i, c := range b.commands {
		_, text, _ := strings.Cut(parts[i], "\n")
		text, status, _ := strings.Cut(text, endMark+" ")
		want := "0"
		if i == len(b.commands)-1 {
			want = fmt.Sprint(b.status)
		}
		if strings.TrimSpace(status) != want {
			p.t.Errorf("line %d: %s\nends with status %s, want %s:\n%s", b.line, c.text, strings.TrimSpace(status), want, text)
			continue
		}
		if len(c.output) > 0 && !alike(c.expected(), strings.Split(text, "\n")) {
			p.t.Errorf("line %d: %s\nprints\n%s\nthe page shows\n%s", b.line, c.text, text, strings.Join(c.output, "\n"))
		}
	}
}

// runsProgram finds commands of ckpt that run a program of the user.
var runsProgram = regexp.MustCompile(`\bckpt (launch|restart)\b.* -- `)

// expected returns the lines that a command prints. A program writes to the same terminal
// as ckpt: its lines may come before, between and behind.
func (c *shown) expected() (page []string) {
	if !runsProgram.MatchString(c.text) {
		return c.output
	}
	for _, l := range c.output {
		page = append(page, "...", l)
	}
	return append(page, "...")
}

// alike compares two texts but for numbers and padding.
func alike(page, got []string) bool {
	page, got = masked(page), masked(got)
	// fit[j] says whether the page up to a line can be the first j lines.
	fit := make([]bool, len(got)+1)
	fit[0] = true
	for _, l := range page {
		next := make([]bool, len(got)+1)
		for j := range next {
			if l == "..." {
				next[j] = fit[j] || j > 0 && next[j-1]
			} else {
				next[j] = j > 0 && fit[j-1] && got[j-1] == l
			}
		}
		fit = next
	}
	return fit[len(got)]
}

var (
	numbers  = scripttest.Lazily(`[-+−]?\d[\d.,:]*(e[-+]?\d+)?`)
	spans2   = scripttest.Lazily(`(# ?(d|h|m|s|ms|µs|ns|min|days|years)\b)+|# ?(B|KiB|MiB|GiB|TiB|PiB|bytes)\b`)
	hexes    = scripttest.Lazily(`\b[0-9a-f]{12,64}\b`)
	paddings = regexp.MustCompile(`[ \t─-]+`)
	// How many there are is a number, too: "1 file" or "2 files", "message 6" or "messages 6–7".
	plurals  = regexp.MustCompile(`# ([a-z]+[a-rt-z])s\b`)
	messages = regexp.MustCompile(`messages? #(–#)?`)
)

func masked(lines []string) (out []string) {
	for _, l := range lines {
		l = hexes().ReplaceAllString(l, "HEX")
		l = numbers().ReplaceAllString(l, "#")
		l = spans2().ReplaceAllString(l, "# UNIT")
		l = strings.ReplaceAll(l, "# UNIT to # UNIT", "# to # UNIT") // one unit, or one each
		l = plurals.ReplaceAllString(l, "# $1")
		l = messages.ReplaceAllString(l, "messages #")
		if l = strings.TrimSpace(paddings.ReplaceAllString(l, " ")); l != "" {
			out = append(out, l)
		}
	}
	return out
}

func TestExpected(t *testing.T) {
	c := shown{text: "ckpt launch -- ./a.out", output: []string{"begins", "ends"}}
	for text, want := range map[string]bool{"1\nbegins\n2\nends\n3": true, "begins\nends": true, "ends\nbegins": false} {
		if alike(c.expected(), strings.Split(text, "\n")) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
	c.text = "ckpt launch bt.S.4"
	if alike(c.expected(), []string{"1", "begins", "ends"}) {
		t.Error("a line of no program is not on the page")
	}
}

func TestAlike(t *testing.T) {
	page := strings.Split("job: 4 ranks in 1.3 s\n...\ndigest 00ff00ff00ff00ff", "\n")
	for text, want := range map[string]bool{
		"job: 16 ranks in 449ms\ndigest deadbeefdeadbeef":           true,
		"job:   4 ranks in 1m2s\na\nb\n\ndigest deadbeefdeadbeef\n": true,
		"job: 4 nodes in 1 s\ndigest deadbeefdeadbeef":              false,
		"job: 4 ranks in 1 s\na":                                    false,
	} {
		if alike(page, strings.Split(text, "\n")) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
	for text, other := range map[string]string{
		"had messages 6–7 of rank 1": "had message 6 of rank 1",
		"2 retries":                  "1 retries",
		"2 checkpoints, 1 rank":      "1 checkpoint, 2 ranks",
	} {
		if !alike([]string{text}, []string{other}) {
			t.Errorf("%q and %q differ in numbers only", text, other)
		}
	}
}
