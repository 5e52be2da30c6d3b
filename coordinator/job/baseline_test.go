package job

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"ckpt/internal/durable"
)

// TestBaselineBits flips every bit of what a job notes of its recovery line. It is damage,
// or as good as before: another kind of blank, a capital letter in a name.
func TestBaselineBits(t *testing.T) {
	j := makeJob(t)
	want := Baseline{Base: []int{7, -1, 12}, Incarnation: 3 << 20, Taken: []int{10, 2, 0}}
	if err := WriteBaseline(j, want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(j.Dir(), baselineName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	noticed := 0
	for bit := range 8 * len(good) {
		bad := slices.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := ReadBaseline(j, 3)
		if errors.As(err, new(*durable.DamageError)) {
			noticed++
		} else if err != nil || !reflect.DeepEqual(l, want) {
			t.Errorf("bit %d of byte %d: %+v, %v", bit%8, bit/8, l, err)
		}
	}
	if noticed < 7*len(good) {
		t.Errorf("%d of %d flips are damage", noticed, 8*len(good))
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadBaseline(j, 3); !errors.As(err, new(*durable.DamageError)) {
		t.Errorf("of nothing: %v", err)
	}
}
