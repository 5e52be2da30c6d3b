// Package mutations holds mistakes that a careless change could make, each with the
// test that catches it. TestList checks that every mistake can still be made, and
// TestMutations makes them:
//
//	CKPT_MUTATIONS=1 go test -run 'TestMutations/spare' -v ./internal/mutations
//
// A mutation is added together with a test that it made fail. When the code of one
// changes, change the mutation with it, or remove it if nobody can make that mistake
// any more.
package mutations

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A mutation replaces old by new in a file, after which the test must fail.
type mutation struct {
	name     string
	file     string // from the root of the module
	old, new string
	test     string // in the package of the file, or as "image TestX" in another
}

// where returns the package of the test, and its name.
func (m *mutation) where() (dir, test string) {
	if dir, test, ok := strings.Cut(m.test, " "); ok {
		return dir, test
	}
	return filepath.Dir(m.file), m.test
}

// root is that of the module.
const root = "../.."

// apply returns the file with the mistake in it. The text to replace must stand
// there exactly once, so that no mutation goes stale unseen.
func (m *mutation) apply(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		t.Fatalf("%s holds %d times what the mutation replaces, want once:\n%s", m.file, n, m.old)
	}
	return []byte(strings.Replace(string(b), m.old, m.new, 1))
}

// tested reports whether the test is there.
func (m *mutation) tested(t *testing.T) bool {
	t.Helper()
	dir, test := m.where()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\nfunc "+test+"(t *testing.T) {") {
			return true
		}
	}
	return false
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
	original, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, m.apply(t), 0o600); err != nil {
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
