package replay

// A fileSystem holds the files of a replay. Names are those of package path/filepath.
// Errors work with errors.Is as those of package os do. The interface is not that of
// internal/vfs: a replay needs vectored single calls, and this package is a leaf.
type fileSystem interface {
	// Create makes a file for reading and writing, mode 0600. It fails with
	// fs.ErrExist if the name exists.
	Create(name string) (openFile, error)
	// Open opens a file for reading and writing. It does not follow links.
	Open(name string) (openFile, error)
	// Stat checks that a name exists. It does not follow links, and fails with
	// fs.ErrNotExist.
	Stat(name string) error
	Rename(old, name string) error
	// Remove unlinks a name that is not a directory.
	Remove(name string) error
	// Mkdir makes a directory, mode 0700.
	Mkdir(name string) error
	// RemoveDir removes an empty directory.
	RemoveDir(name string) error
}

// An openFile is an open file. Each read and write is one system call that may move
// less than asked for. Several goroutines may call them.
type openFile interface {
	// ReadAt fills buffers one after the other. At the end of the file it returns 0
	// and no error.
	ReadAt(into [][]byte, off int64) (int64, error)
	WriteAt(from [][]byte, off int64) (int64, error)
	SeekTo(off int64) error
	Truncate(size int64) error
	Sync() error
	Close() error
}

// A forgetter is an openFile that can drop its pages from the page cache after Sync,
// so that reads come from the disk.
type forgetter interface {
	Forget() error
}

// A directFile is an openFile that can also bypass the page cache.
type directFile interface {
	// Direct opens the same file with O_DIRECT.
	Direct() (openFile, error)
}
