package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckProgram names a program that cannot be run once, and says why.
func TestCheckProgram(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, c := range []struct {
		name, want string
		status     int
	}{
		{"nosuch", "no such program in $PATH", ExitNotFound},
		{filepath.Join(dir, "nosuch"), "no such program", ExitNotFound},
		{plain, "may not be run", ExitNotFound},
	} {
		err := CheckProgram(c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), c.name) != 1 || ExitCode(err) != c.status {
			t.Errorf("CheckProgram(%s) = %v, status %d; want %s", c.name, err, ExitCode(err), c.want)
		}
	}
	if err := os.Chmod(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := CheckProgram("plain"); err != nil {
		t.Errorf("CheckProgram(plain) = %v", err)
	}
}
