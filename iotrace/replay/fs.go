package replay

// A fileSystem is where the files of a replay are made. Names are those of package
// path/filepath. Errors answer to errors.Is as those of package os do.
type fileSystem interface {
	// Create makes a file for reading and writing, mode 0600. It fails with
	// fs.ErrExist if the name is there.
	Create(name string) (openFile, error)
	// Open opens a file for reading and writing, and follows no link.
	Open(name string) (openFile, error)
	// Stat looks at a name, and follows no link. It fails with fs.ErrNotExist if
	// it is not there.
	Stat(name string) error
	Rename(old, name string) error
	// Remove unlinks what is no directory.
	Remove(name string) error
	// Mkdir makes a directory, mode 0700.
	Mkdir(name string) error
	// RemoveDir removes an empty directory.
	RemoveDir(name string) error
}

// An openFile is one. Reads and writes are each one system call, whatever they
// are given, and may move less than that; they may come from several goroutines.
type openFile interface {
	// ReadAt fills buffers one after the other. At the end of the file it moves
	// nothing and has no error.
	ReadAt(into [][]byte, off int64) (int64, error)
	WriteAt(from [][]byte, off int64) (int64, error)
	SeekTo(off int64) error
	Truncate(size int64) error
	Sync() error
	Close() error
}

// A forgetter is an openFile that can be dropped from the page cache, after Sync, so that
// what is read of it comes from the disk.
type forgetter interface {
	Forget() error
}

// A directFile is an openFile that can also be had around the page cache.
type directFile interface {
	// Direct opens the same file with O_DIRECT.
	Direct() (openFile, error)
}
