package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/zones"
	"ckpt/zones/global"
)

// sectionOf reads a section of array u.
func sectionOf(t *testing.T, j *Job, m *Manifest, text string) (values []uint64, reads Reads, err error) {
	t.Helper()
	j, count := j.Counting()
	a, err := j.GlobalArray(m, "u", nil)
	if err != nil {
		return nil, count(), err
	}
	s, err := global.ParseSection(text, a.Shape)
	if err != nil {
		t.Fatal(err)
	}
	p := j.Parts(m, 0, container.LoadOptions{})
	defer p.Close()
	var b bytes.Buffer
	if err := p.WriteSection(context.Background(), a, s, &b, nil); err != nil {
		return nil, count(), err
	}
	for at := 0; at < b.Len(); at += 8 {
		values = append(values, binary.LittleEndian.Uint64(b.Bytes()[at:]))
	}
	return values, count(), nil
}

// TestSectionOfRanks reads parts of an array as NumPy would, each cell from its owner though
// halos are stale, out of files of which some refer to those of an earlier checkpoint.
func TestSectionOfRanks(t *testing.T) {
	t.Parallel()
	const rows, columns = 700, 1100
	whole := arrayOf(grid(cutRows(rows, 0, 1), cutRows(columns, 0, 1))[0], 0, false)
	for _, layout := range []plan.Layout{plan.Shared, plan.Aggregated} {
		for _, parts := range [][]*global.Part{
			grid(cutRows(rows, 1, 3), cutRows(columns, 0, 2)), grid(cutRows(rows, 1, 1), cutColumns(columns, 64, 3))} {
			j, m := takeParts(t, layout, parts)
			for _, text := range []string{":", "0:100,::4", "-1", "::-13,5", "300:400,1000:200:-7", "5:5"} {
				got, _, err := sectionOf(t, j, m, text)
				if err != nil {
					t.Fatal(err)
				}
				s, _ := global.ParseSection(text, []int64{rows, columns})
				if int64(len(got)) != s.Len() {
					t.Fatalf("%q: %d cells, want %d", text, len(got), s.Len())
				}
				for k, v := range got {
					r, c := s.Picks[0], s.Picks[1]
					i, j := r.Start+int64(k)/c.N*r.Step, c.Start+int64(k)%c.N*c.Step
					if want := binary.LittleEndian.Uint64(whole.Mem[8*(i*columns+j):]); v != want {
						t.Fatalf("%s, %q: cell %d,%d is %x, want %x", layout, text, i, j, v, want)
					}
				}
			}
		}
	}
}

// TestSectionCost: a slice costs the extents that it touches, and indexes; a damaged extent fails
// those slices alone that touch it.
func TestSectionCost(t *testing.T) {
	t.Parallel()
	const rows, columns = 4096, 256 // two ranks of 4 MiB, 16 extents each
	j, m := takePacked(t, plan.Aggregated, grid(cutRows(rows, 0, 2), cutRows(columns, 0, 1)), codec.UseNone)
	_, none, err := sectionOf(t, j, m, "0:0")
	if err != nil {
		t.Fatal(err)
	}
	for text, extents := range map[string]int64{"0": 1, "5,3": 1, "0:128": 1, "0:129": 2, "::2048": 2, "::1024,::2": 4, ":": 32} {
		_, r, err := sectionOf(t, j, m, text)
		// Opening a file to read it, and each file that it refers to, takes a few blocks more.
		if got, least := r.Bytes-none.Bytes, extents*(256<<10); err != nil || got < least || got > least+16*container.BlockSize {
			t.Errorf("%q: %d bytes read, want %d and the indexes of files: %v", text, got, least, err)
		}
	}
	flipped := 0
	for _, f := range m.Files {
		if f.Number() != 2 || f.Bytes < 1<<20 {
			continue
		}
		file, err := j.FS().OpenWrite(filepath.Join(j.Dir(), filepath.FromSlash(f.Path)))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1)
		file.ReadAt(b, f.Bytes/2)
		b[0] ^= 1
		file.WriteAt(b, f.Bytes/2)
		file.Close()
		flipped++
	}
	if flipped == 0 {
		t.Fatal("no file of checkpoint 2 has an array")
	}
	_, _, err = sectionOf(t, j, m, ":")
	if d, ok := errors.AsType[*durable.DamageError](err); !ok || d.Offset == 0 || d.File == "" {
		t.Errorf("%v, want damage with its file and offset", err)
	}
	if _, _, err := sectionOf(t, j, m, "0"); err != nil {
		t.Errorf("a row beside the damage: %v", err)
	}
}

// TestSectionRefused: an array that is not whole is not read.
func TestSectionRefused(t *testing.T) {
	t.Parallel()
	j, m := takeParts(t, plan.Shared, grid(cutRows(20, 1, 2), cutRows(30, 0, 1)))
	if _, err := j.GlobalArray(m, "v", nil); !errors.Is(err, ErrNoArray) || !bytes.Contains([]byte(err.Error()), []byte("has u")) {
		t.Error(err)
	}
	m.Ranks[1].Global = nil
	if _, err := j.GlobalArray(m, "u", nil); !errors.Is(err, ErrPartialArray) {
		t.Error(err)
	}
}

// TestNPYHeader has headers as numpy.save wrote them, but for spaces.
func TestNPYHeader(t *testing.T) {
	t.Parallel()
	for want, got := range map[string][]byte{
		"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }": NPYHeader(zones.Float64, []int64{3, 4}),
		"{'descr': '<i4', 'fortran_order': False, 'shape': (7,), }":   NPYHeader(zones.Int32, []int64{7}),
		"{'descr': '|u1', 'fortran_order': False, 'shape': (), }":     NPYHeader(zones.Bytes, nil),
		"{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }":   NPYHeader(zones.BFloat16, []int64{2}),
	} {
		if len(got)%64 != 0 || string(bytes.TrimRight(got[10:], " \n")) != want || int(binary.LittleEndian.Uint16(got[8:])) != len(got)-10 {
			t.Errorf("%q, want %s", got, want)
		}
	}
}
