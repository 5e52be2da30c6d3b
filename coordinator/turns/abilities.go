package turns

import "ckpt/internal/vfs"

// Callers find abilities by type assertion, so that each set of them needs a type of its own. The
// tables have the types by the number that func set returns.

// withFS has all abilities of a file system, withFile those of a file.
type (
	withFS struct {
		base
		directCreator
		directOpener
		directWriter
	}
	withFile struct {
		*file
		vfs.Preallocator
		vfs.Forgetter
		reopener
		mapper
	}
)

var fileSystems = [8]func(withFS) vfs.FS{
	func(w withFS) vfs.FS { return w.base },
	func(w withFS) vfs.FS {
		return struct {
			base
			directCreator
		}{w.base, w.directCreator}
	},
	func(w withFS) vfs.FS {
		return struct {
			base
			directOpener
		}{w.base, w.directOpener}
	},
	func(w withFS) vfs.FS {
		return struct {
			base
			directCreator
			directOpener
		}{w.base, w.directCreator, w.directOpener}
	},
	func(w withFS) vfs.FS {
		return struct {
			base
			directWriter
		}{w.base, w.directWriter}
	},
	func(w withFS) vfs.FS {
		return struct {
			base
			directCreator
			directWriter
		}{w.base, w.directCreator, w.directWriter}
	},
	func(w withFS) vfs.FS {
		return struct {
			base
			directOpener
			directWriter
		}{w.base, w.directOpener, w.directWriter}
	},
	func(w withFS) vfs.FS { return w },
}

var files = [16]func(withFile) vfs.File{
	func(w withFile) vfs.File { return w.file },
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Preallocator
		}{w.file, w.Preallocator}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Forgetter
		}{w.file, w.Forgetter}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Preallocator
			vfs.Forgetter
		}{w.file, w.Preallocator, w.Forgetter}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			reopener
		}{w.file, w.reopener}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Preallocator
			reopener
		}{w.file, w.Preallocator, w.reopener}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Forgetter
			reopener
		}{w.file, w.Forgetter, w.reopener}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Preallocator
			vfs.Forgetter
			reopener
		}{w.file, w.Preallocator, w.Forgetter, w.reopener}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			mapper
		}{w.file, w.mapper}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Preallocator
			mapper
		}{w.file, w.Preallocator, w.mapper}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Forgetter
			mapper
		}{w.file, w.Forgetter, w.mapper}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Preallocator
			vfs.Forgetter
			mapper
		}{w.file, w.Preallocator, w.Forgetter, w.mapper}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			reopener
			mapper
		}{w.file, w.reopener, w.mapper}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Preallocator
			reopener
			mapper
		}{w.file, w.Preallocator, w.reopener, w.mapper}
	},
	func(w withFile) vfs.File {
		return struct {
			*file
			vfs.Forgetter
			reopener
			mapper
		}{w.file, w.Forgetter, w.reopener, w.mapper}
	},
	func(w withFile) vfs.File { return w },
}
