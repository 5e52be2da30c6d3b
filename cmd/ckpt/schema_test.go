package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"ckpt/cmd/ckpt/internal/ui"
)

// The tests check everything that a script or a block of the documentation prints
// with --json against docs/schema: in place of main they run checkedMain, which gets
// the directory and the name of a log from the environment.
const (
	schemaDir = "CKPT_TEST_SCHEMAS"
	schemaLog = "CKPT_TEST_SCHEMA_LOG"
)

// exitMismatch is the exit status of a command whose output does not match. No test
// expects it; the log fails tests that ignore the status.
const exitMismatch = 99

// schemaChecked are the tests of this package. They fail if the output of a command
// did not match, even where a script ignores the status, as in a pipe.
type schemaChecked struct{ *testing.M }

func (m schemaChecked) Run() int {
	dir, err := os.MkdirTemp("", "ckpt-schema-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	schemas, err := filepath.Abs("../../docs/schema")
	if err != nil {
		panic(err)
	}
	log := filepath.Join(dir, "log")
	for name, value := range map[string]string{schemaDir: schemas, schemaLog: log} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	if err := useMPICH(dir); err != nil {
		panic(err)
	}
	heedSignals()
	code := m.M.Run()
	if text, err := os.ReadFile(log); err == nil {
		fmt.Printf("--- FAIL: JSON that does not match its schema\n%s", text)
		code = max(code, 1)
	}
	return code
}

// checkedMain is main, which also checks the output of --json.
func checkedMain() {
	args := os.Args[1:]
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	if os.Getenv(schemaDir) == "" || !slices.Contains(args, "--json") || slices.Contains(args, "--help") {
		main()
		return
	}
	var out bytes.Buffer
	status := run(context.Background(), os.Args[1:], ui.Streams{In: os.Stdin, Out: io.MultiWriter(os.Stdout, &out), Err: os.Stderr})
	if err := checkOutput(os.Getenv(schemaDir), args, out.Bytes(), status == 0); err != nil {
		text := fmt.Sprintf("ckpt %s: %v\n", strings.Join(args, " "), err)
		fmt.Fprint(os.Stderr, text)
		if f, err := os.OpenFile(os.Getenv(schemaLog), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
			_, _ = f.WriteString(text)
			_ = f.Close()
		}
		status = exitMismatch
	}
	os.Exit(status)
}

// checkOutput checks the documents that a command printed. A command that fails may
// have printed none, or the beginning of one.
func checkOutput(dir string, args []string, out []byte, whole bool) error {
	name := schemaOf(args)
	if writesFile(args) {
		return nil // standard output is the file
	}
	documents, err := checkDocuments(dir, name, out, whole)
	if err == nil && whole && documents == 0 && name != "trace-show" { // which may show no event
		return errors.New("printed no JSON")
	}
	return err
}

// checkDocuments checks and counts the documents in a text.
func checkDocuments(dir, name string, text []byte, whole bool) (documents int, err error) {
	schema, err := readSchema(dir, name)
	if err != nil {
		return 0, err
	}
	for in := json.NewDecoder(bytes.NewReader(text)); ; documents++ {
		in.UseNumber()
		var doc any
		err := in.Decode(&doc)
		if errors.Is(err, io.EOF) || err != nil && !whole {
			return documents, nil
		}
		if err != nil {
			return documents, fmt.Errorf("not JSON: %w", err)
		}
		if err := schema.Validate(doc); err != nil {
			return documents, fmt.Errorf("does not match docs/schema: %w", err)
		}
	}
}

// matches checks a file of a script: matches SCHEMA FILE
func matches(ts *testscript.TestScript, _ bool, args []string) {
	documents, err := checkDocuments(ts.Getenv(schemaDir), args[0], []byte(ts.ReadFile(args[1])), true)
	ts.Check(err)
	if documents == 0 {
		ts.Fatalf("%s has no JSON", args[1])
	}
}

// schemaOf names the schema of a command: predict-size for ckpt predict size APP.
func schemaOf(args []string) string {
	cmd, _, err := newRootCommand(&ui.Globals{}).Find(args)
	switch {
	case err != nil:
		return "error" // which prints nothing on standard output
	case slices.Contains(args, "--version"):
		return "version"
	}
	return strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "ckpt "), " ", "-")
}

// writesFile reports whether standard output takes a file of another format.
func writesFile(args []string) bool {
	i := slices.IndexFunc(args, func(a string) bool { return a == "-o" || a == "--output" })
	return i >= 0 && i+1 < len(args) && args[i+1] == "-"
}

// readSchema compiles a file of docs/schema with those that it refers to.
func readSchema(dir, name string) (*jsonschema.Schema, error) {
	path, err := filepath.Abs(filepath.Join(dir, name+".json"))
	if err != nil {
		return nil, err
	}
	schema, err := jsonschema.NewCompiler().Compile(path)
	if err != nil {
		return nil, fmt.Errorf("no schema: %w", err)
	}
	return schema, nil
}
