package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ckpt/coordinator/msglog"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// TestFlips flips every byte of each file that a restart reads beside checkpoints and logs: it
// then fails, or reads the same.
func TestFlips(t *testing.T) {
	j, store := jobWithFiles(t)
	for name, read := range besideReaders {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(j.Dir(), name)
			sound, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			again := func() (string, error) {
				j, err := store.Job("job")
				if err != nil {
					return "", err
				}
				got, err := read(j)
				return fmt.Sprintf("%+v", got), err
			}
			want, err := again()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, sound, 0o600); err != nil {
				t.Fatal(err)
			}
			found, text := 0, len(bytes.TrimRight(sound, " "))
			for i := range min(len(sound), text+64) { // then spaces, as before
				for _, mask := range []byte{1, 0x20, '\n' ^ ' ', 0xff} {
					flipped := bytes.Clone(sound)
					flipped[i] ^= mask
					if err := os.WriteFile(path, flipped, 0o600); err != nil {
						t.Fatal(err)
					}
					got, err := again()
					if err == nil && got != want {
						t.Fatalf("byte %d with %#x: %s, want %s", i, mask, got, want)
					}
					if err != nil {
						found++
					}
				}
			}
			if found == 0 {
				t.Error("no flip was found")
			}
			if err := os.WriteFile(path, sound, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// jobWithFiles makes a job with all that a restart reads beside checkpoints, in a store of its
// own.
func jobWithFiles(t *testing.T) (*image.Job, *image.Store) {
	t.Helper()
	inst, err := dataset.ParseApp("ring.S.2", 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := NewSpec(inst)
	spec.ID = image.NewID()
	spec.Mode = Uncoordinated
	text, err := spec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	store, err := image.CreateStore(vfs.OS{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Unlock() })
	if err := os.Mkdir(LogsDir(j), 0o700); err != nil {
		t.Fatal(err)
	}
	_, out, err := OpenOutput(j, 2)
	for i := range 3 {
		if err == nil {
			_, err = out.Add(&OutputEvent{Type: "output", Rank: i % 2, Index: uint64(i/2 + 1), Text: "a line"})
		}
	}
	if err == nil {
		err = WriteBaseline(j, Baseline{Base: []int{1, 2}, Incarnation: 7, Taken: []int{3, 2}})
	}
	if err == nil {
		err = WriteInput(j, Input{Data: []byte("input"), Ended: true})
	}
	if err == nil {
		var log *msglog.Log
		if log, err = OpenLog(j, 0); err == nil {
			err = log.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(StatePath(j)), 0o700), durable.ReplaceSealed(j.FS(), StatePath(j), map[string]any{"job_id": spec.ID, "sets": 3})); err != nil {
		t.Fatal(err)
	}
	RecordEnding(j, StateCompleted, "digest", nil, NewBeginning(), map[string]string{"outcome": "completed"})
	return j, store
}

// besideReaders read the small files.
var besideReaders = map[string]func(j *image.Job) (any, error){
	"job":        func(j *image.Job) (any, error) { return j.Spec() },
	baselineName: func(j *image.Job) (any, error) { return ReadBaseline(j, 2) },
	stateName: func(j *image.Job) (any, error) {
		var state map[string]any
		return &state, ReadState(j, &state)
	},
	inputName: func(j *image.Job) (any, error) { return ReadInput(j) },
	outputName: func(j *image.Job) (any, error) {
		last, o, err := OpenOutput(j, 2)
		if err == nil {
			err = o.Cut()
		}
		if err != nil {
			return nil, err
		}
		again, _, err := OpenOutput(j, 2) // as the run after the next reads it
		return [][]uint64{last, again}, err
	},
	resultName: func(j *image.Job) (any, error) {
		e, err := readEnding(j)
		if err != nil {
			return nil, err
		}
		return e, json.Unmarshal(e.Result, new(map[string]string))
	},
}
