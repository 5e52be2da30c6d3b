package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var updatePictures = flag.Bool("update-pictures", false, "draw the pictures of the pages again")

// TestPictures: the pictures of README and docs are what the commands beside them draw.
func TestPictures(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"size.svg":    {"predict", "size", "bt.D.400", "--nodes", "10", "-q"},
		"larrosa.svg": {"bench", "storage", "--on", "eos-spider2", "--bytes", "512MiB", "--sweep", "p1,p2,p3,p4,aggregators,buffer,stripes", "-q"},
	} {
		drawn := filepath.Join(t.TempDir(), name)
		cmd := exec.Command("ckpt", append(args, "--plot", drawn)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		want, err := os.ReadFile(drawn)
		if err != nil {
			t.Fatal(err)
		}
		shown := filepath.Join("../../docs", name)
		got, err := os.ReadFile(shown)
		if *updatePictures && !bytes.Equal(got, want) {
			got, err = want, os.WriteFile(shown, want, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what ckpt draws: go test -run TestPictures ./cmd/ckpt -update-pictures", shown)
		}
	}
}
