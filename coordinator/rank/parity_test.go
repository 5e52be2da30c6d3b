package rank

import (
	"errors"
	"io/fs"
	"testing"

	"ckpt/image/nodes"
	"ckpt/internal/vfs/memfs"
)

// TestEncoderOfEarlierCheckpoint: a parity that was never completed, as when a rank of
// its set has died, gives its file back once a later checkpoint begins.
func TestEncoderOfEarlierCheckpoint(t *testing.T) {
	scheme, err := nodes.Parse("xor:3")
	if err != nil {
		t.Fatal(err)
	}
	var list []nodes.Node
	setting := nodes.Setting{Dir: "/nvme/{node}", Protect: scheme, Drain: nodes.Drain{Mode: nodes.DrainNone}}
	disk := memfs.New()
	for n := range 3 {
		list = append(list, nodes.Node{ID: n, FS: disk, Dir: setting.NodeDir(n)})
	}
	tier, err := nodes.Open("heat", []byte("{}"), setting, []int{0, 1, 2}, list)
	if err != nil {
		t.Fatal(err)
	}
	p := &parity{ranks: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, tier: tier, sets: tier.Sets(nil), encoders: map[parityKey]*nodes.Encoder{}}
	begin := func(number int) *nodes.Encoder {
		if err := tier.Prepare(0, number); err != nil {
			t.Fatal(err)
		}
		e, err := p.encoder(parityKey{number, 0, 0})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := begin(1)
	if err := first.Add(1, 0, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	name := setting.NodeDir(0) + "/jobs/heat/" + nodes.ParityFile(1, 0, 0)
	if _, err := disk.Stat(name); err != nil {
		t.Fatal(err)
	}
	second := begin(2)
	if _, err := disk.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", name, err)
	}
	if err := first.Add(1, 100, make([]byte, 100)); err == nil {
		t.Error("the parity of checkpoint 1 still takes bytes")
	}
	if err := second.Add(1, 0, make([]byte, 100)); err != nil {
		t.Error(err)
	}
}
