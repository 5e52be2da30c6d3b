package testkit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Mutations are mistakes that a careless change could make, each with the
// test that catches it. TestList checks that every mistake can still be made, and
// TestMutations makes them:
//
//	CKPT_MUTATIONS=1 go test -run 'TestMutations/spare' -v ./internal/testkit
//
// A mutation is added together with a test that it made fail. When the code of one
// changes, change the mutation with it, or remove it if that mistake is impossible
// any more.
//
// A mutation replaces old by new in a package, after which the test must fail.
type mutation struct {
	name     string
	pkg      string // from the root of the module
	old, new string
	test     string // in the package, or as "image TestX" in another
}

// where returns the package of the test, and its name.
func (m *mutation) where() (dir, test string) {
	if dir, test, ok := strings.Cut(m.test, " "); ok {
		return dir, test
	}
	return m.pkg, m.test
}

// root is the directory of the module.
const root = "../.."

// apply returns the file with the mistake in it, and its name. The text to replace must
// stand in the package exactly once, so that no mutation goes stale unseen.
func (m *mutation) apply(t *testing.T) (file string, mistaken []byte) {
	t.Helper()
	n := 0
	for name, text := range sources(t, m.pkg) {
		if k := strings.Count(text, m.old); k > 0 && !strings.HasSuffix(name, "_test.go") {
			n += k
			file, mistaken = name, []byte(strings.Replace(text, m.old, m.new, 1))
		}
	}
	if n != 1 {
		t.Fatalf("%s holds %d times what the mutation replaces, want once:\n%s", m.pkg, n, m.old)
	}
	return file, mistaken
}

// tested reports whether the test is there.
func (m *mutation) tested(t *testing.T) bool {
	t.Helper()
	dir, test := m.where()
	for _, text := range sources(t, dir) {
		if strings.Contains(text, "\nfunc "+test+"(t *testing.T) {") {
			return true
		}
	}
	return false
}

// sources returns the texts of a package by their absolute names.
func sources(t *testing.T, pkg string) map[string]string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, pkg))
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(b)
	}
	return texts
}

// TestList checks that each mutation changes something and names a test.
func TestList(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			if seen[m.name] || m.old == m.new {
				t.Error("the name is taken, or nothing is replaced")
			}
			seen[m.name] = true
			m.apply(t)
			if !m.tested(t) {
				t.Errorf("there is no test %s", m.test)
			}
		})
	}
}

// TestMutations makes each mistake, alone, and runs the test that is to catch it.
func TestMutations(t *testing.T) {
	if os.Getenv("CKPT_MUTATIONS") == "" {
		t.Skip("CKPT_MUTATIONS is not set")
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.run(t)
		})
	}
}

// run has the compiler read the changed file in place of the one in the tree.
func (m *mutation) run(t *testing.T) {
	tmp := t.TempDir()
	changed, overlay := filepath.Join(tmp, "changed.go"), filepath.Join(tmp, "overlay.json")
	original, mistaken := m.apply(t)
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, mistaken, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, test := m.where()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", overlay, "-run", "^"+test+"$", "./"+dir)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	// A mutation that does not compile, or hangs, has not been caught by its test.
	failed := regexp.MustCompile(`(?m)^--- FAIL: ` + test + ` `).Match(out)
	if err == nil || !failed {
		t.Errorf("%s does not catch it (%v):\n%s", m.test, err, out)
	}
}
