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
