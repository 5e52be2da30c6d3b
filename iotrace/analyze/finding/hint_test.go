package finding

import "testing"

// TestHDF5Alone: an HDF5 file of a program without MPI has the settings of its library as
// remedies, not those of streams.
func TestHDF5Alone(t *testing.T) {
	for name, want := range map[string]Hint{"a.h5": hdf5Blocks, "a.dat": buffer} {
		f := File{Name: name, Ranks: 1, Touchers: 1}
		f.Data[0].Work = Work{Count: 1000, Bytes: 4096 * 1000, Time: 1, Wall: 1}
		f.Small[0] = f.Data[0].Work
		r := &Run{Wall: 1, Time: 1, Timed: true, Files: []File{f}, Data: f.Data, Small: f.Small}
		found := Find(r, Default())
		if len(found) != 1 || found[0].Code != "CK01" || found[0].Hints[0] != want {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
