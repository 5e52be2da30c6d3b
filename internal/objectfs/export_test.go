package objectfs

const (
	MinPart   = minPart
	Abandoned = abandoned
)

// Uploads is how many parts the file system of a directory has under way at most.
func Uploads(dir string) (int, error) {
	f, err := Open(dir)
	if err != nil {
		return 0, err
	}
	return cap(f.(joined).FS.slots), nil
}

// MostParts is how many parts are in memory at most.
const MostParts = uploads + openParts

// Buffers returns how many parts were in memory at most, and how many are.
func (f *FS) Buffers() (most, now int) {
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	return len(f.pool.free) + f.pool.used, f.pool.used
}
