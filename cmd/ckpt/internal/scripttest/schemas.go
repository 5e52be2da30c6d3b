package scripttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/rank"
	"ckpt/internal/testkit"
)

// Commands of scripts and of blocks run checkedMain in place of main. It gets two names
// from the environment: a directory that it notes the output of --json in, which the tests
// check against docs/schema at their end, and a small file that it takes for its own
// binary, which each job would read, hash and store. A script that needs the true binary
// says: env CKPT_TEST_LIBRARY=
const (
	Outputs     = "CKPT_TEST_OUTPUTS"
	testLibrary = "CKPT_TEST_LIBRARY"
)

// passed are the variables that the commands of scripts get, too. The last
// three are from testkit.Frugal.
var passed = []string{Outputs, testLibrary, "GOGC", "GOMAXPROCS", testkit.EnvPace}

// Noted is the output of a command with --json, as checkedMain notes it.
type noted struct {
	Dir    string
	Args   []string
	Status int
	Out    []byte
}

// schemaChecked are the tests of this package. They fail if the output of a command
// did not match, even where a script ignores the status, as in a pipe.
type schemaChecked struct{ *testing.M }

func (m schemaChecked) Run() int {
	dir, err := os.MkdirTemp("", "ckpt-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	defer testkit.InMemory()()
	outputs, small := filepath.Join(dir, "outputs"), filepath.Join(dir, "program")
	if err := makePlace(dir, outputs, small); err != nil {
		panic(err)
	}
	settings := map[string]string{Outputs: outputs, testLibrary: small}
	for name, value := range settings {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	if !testkit.Nightly() {
		if err := testkit.Frugal(); err != nil {
			panic(err)
		}
	}
	if err := useMPI(dir); err != nil {
		panic(err)
	}
	heedSignals()
	code := m.M.Run()
	if err := checkOutputs(outputs); err != nil {
		fmt.Printf("--- FAIL: JSON that does not match its schema\n%v\n", err)
		code = max(code, 1)
	}
	return code
}

// makePlace makes what checkedMain gets, for all users, since scripts become others.
func makePlace(dir, outputs, small string) error {
	content, err := os.ReadFile(Clone("testdata/stores/program"))
	if memory := os.TempDir(); err == nil && memory != testkit.Disk() {
		err = os.Chmod(memory, 0o777|os.ModeSticky)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(small, content, 0o644), os.Mkdir(outputs, 0o700), os.Chmod(outputs, 0o777), os.Chmod(dir, 0o711))
}

// checkOutputs checks what commands have printed with --json.
func checkOutputs(dir string) (errs error) {
	notes, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, note := range notes {
		text, err := os.ReadFile(note)
		var p noted
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err == nil {
			err = CheckOutput(p.Args, p.Out, p.Status == 0)
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("in %s: ckpt %s: %w", p.Dir, strings.Join(p.Args, " "), err))
		}
	}
	return errs
}

// checkedMain is main with the hooks of the tests.
func checkedMain() {
	if small := os.Getenv(testLibrary); small != "" {
		coordinator.LibraryFile = small
		mpi.Fallocate = func(int, uint32, int64, int64) error { return nil }
	}
	rank.Pace = testkit.Pace
	args := os.Args[1:]
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	outputs := os.Getenv(Outputs)
	if outputs == "" || !slices.Contains(args, "--json") || slices.Contains(args, "--help") {
		root.Main()
		return
	}
	var out bytes.Buffer
	status := root.Run(context.Background(), os.Args[1:], ui.Streams{In: os.Stdin, Out: io.MultiWriter(os.Stdout, &out), Err: os.Stderr})
	dir, _ := os.Getwd()
	if err := note(outputs, noted{dir, args, status, out.Bytes()}); err != nil {
		panic(err)
	}
	os.Exit(status)
}

func note(dir string, p noted) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "*.json.part")
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Rename(f.Name(), strings.TrimSuffix(f.Name(), ".part")))
}

// CheckOutput checks the documents that a command printed. A command that fails may
// have printed a part of one, or nothing.
func CheckOutput(args []string, out []byte, whole bool) error {
	name := SchemaOf(args)
	if WritesFile(args) {
		return nil // standard output is the file
	}
	documents, err := checkDocuments(name, out, whole)
	if err == nil && whole && documents == 0 && name != "trace-show" { // which may show no event
		return errors.New("printed no JSON")
	}
	return err
}

// checkDocuments checks and counts the documents in a text.
func checkDocuments(name string, text []byte, whole bool) (documents int, err error) {
	for in := json.NewDecoder(bytes.NewReader(text)); ; documents++ {
		var doc any
		err := in.Decode(&doc)
		if errors.Is(err, io.EOF) || err != nil && !whole {
			return documents, nil
		}
		if err != nil {
			return documents, fmt.Errorf("not JSON: %w", err)
		}
		if err := MatchSchema(name, doc); err != nil {
			return documents, fmt.Errorf("does not match docs/schema: %w", err)
		}
	}
}

// SchemaOf names the schema of a command: predict-size for ckpt predict size APP.
func SchemaOf(args []string) string {
	cmd, _, err := root.New(&ui.Globals{}).Find(args)
	switch {
	case err != nil:
		return "error" // which prints nothing on standard output
	case slices.Contains(args, "--version"):
		return "version"
	}
	return strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "ckpt "), " ", "-")
}

// WritesFile reports whether standard output takes a file of another format.
func WritesFile(args []string) bool {
	i := slices.IndexFunc(args, func(a string) bool { return a == "-o" || a == "--output" })
	return i >= 0 && i+1 < len(args) && args[i+1] == "-"
}

// Schemas has a property for each file of docs/schema but fields.json, so that these are
// read once.
var Schemas = sync.OnceValues(func() (*jsonschema.Resolved, error) {
	files, err := filepath.Glob(filepath.Join(Clone("docs/schema"), "*.json"))
	if err != nil {
		return nil, err
	}
	all := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); name != "fields" {
			all.Properties[name] = &jsonschema.Schema{Ref: name + ".json"}
		}
	}
	return all.Resolve(&jsonschema.ResolveOptions{BaseURI: "file:///", Loader: loadSchema})
})

func loadSchema(uri *url.URL) (*jsonschema.Schema, error) {
	text, err := os.ReadFile(filepath.Join(Clone("docs/schema"), path.Base(uri.Path)))
	if err != nil {
		return nil, err
	}
	schema := &jsonschema.Schema{}
	return schema, json.Unmarshal(text, schema)
}

// MatchSchema checks a document against the file of a name in docs/schema.
func MatchSchema(name string, doc any) error {
	all, err := Schemas()
	if err != nil {
		return err
	}
	return all.Validate(map[string]any{name: doc})
}
