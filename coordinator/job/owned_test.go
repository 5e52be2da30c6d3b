package job

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/internal/durable"
)

// TestExchanged: two jobs have the same name, and a file of one lies in the directory of the
// other. Its reader says so, and so does ckpt verify.
func TestExchanged(t *testing.T) {
	mine, _ := jobWithFiles(t)
	theirs, _ := jobWithFiles(t)
	log, err := filepath.Rel(mine.Dir(), filepath.Join(LogDir(mine, 0), "00000001.seg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{baselineName, inputName, outputName, resultName, stateName, log} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(mine.Dir(), name)
			own, err := os.ReadFile(path)
			other, oerr := os.ReadFile(filepath.Join(theirs.Dir(), name))
			if err := errors.Join(err, oerr, os.WriteFile(path, other, 0o600)); err != nil {
				t.Fatal(err)
			}
			if read := besideReaders[name]; read != nil {
				if _, err := read(mine); !errors.Is(err, durable.ErrOtherJob) || !strings.Contains(err.Error(), "belongs to another job") {
					t.Error(err)
				}
			} else if _, err := OpenLog(mine, 0); !errors.Is(err, durable.ErrOtherJob) {
				t.Error(err)
			}
			found := false
			_, damage, err := VerifyLogs(mine)
			for _, d := range damage {
				found = found || strings.Contains(d.Error(), "belongs to another job") && strings.HasPrefix(path, d.File)
			}
			if err != nil || !found {
				t.Errorf("verify: %v, %v", damage, err)
			}
			if err := os.WriteFile(path, own, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}
