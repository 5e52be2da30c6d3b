// Package objectfs is a file system (vfs.FS) in an object storage, as S3 has it.
//
// A file is an object. It is there once it was written: by one PUT, or by an upload in parts
// that is completed when the file is synced or closed. A file under a temporary name (.tmp) is
// there once it is renamed, under the new name, in one step. A directory is an object whose name
// ends in "/". A lock is an object with a lease.
//
// The storage need only have what S3 promises: an answer reflects all that was answered before,
// a PUT can depend on the absence of an object (If-None-Match) or on its version (If-Match).
// Every request may fail, or be carried out without an answer.
package objectfs

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors of a Bucket, beside fs.ErrNotExist and fs.ErrPermission.
var (
	// ErrPrecondition says that an object is there, or is another one.
	ErrPrecondition = errors.New("the object is there, or has changed")
	// ErrNoBucket says that there is no bucket of this name.
	ErrNoBucket = errors.New("the bucket does not exist")
	// ErrTransient says that the same request may succeed later.
	ErrTransient = errors.New("the object storage does not answer as it should")
)

// An Object is what a storage says of one.
type Object struct {
	Key      string
	Size     int64
	Tag      string    // of this version (ETag)
	Mark     string    // that its writer gave it; not in a list
	Modified time.Time // by the clock of the storage
	Now      time.Time // that clock, when it answered; not in a list
}

// A Condition says when an object may be written. The zero one: always.
type Condition struct {
	New bool   // it is not there
	Tag string // it has this tag
}

// A Part of an upload.
type Part struct {
	Number int // from 1
	Tag    string
	Sum    uint32 // CRC-32C
}

// An Upload is one that was begun and neither completed nor aborted.
type Upload struct {
	Key, ID string
	Begun   time.Time
}

// A Page is a part of a list.
type Page struct {
	Objects  []Object
	Prefixes []string // directories, with "/" at their end
	Next     string   // where the list goes on, "" at its end
}

// A Bucket is an object storage. Several goroutines use it.
type Bucket interface {
	Head(ctx context.Context, key string) (Object, error)
	// Get reads up to n bytes from off on; with a tag only of that version.
	Get(ctx context.Context, key string, off, n int64, tag string) (io.ReadCloser, Object, error)
	// Put writes an object with the mark of its writer.
	Put(ctx context.Context, key string, b []byte, mark string, c Condition) (Object, error)
	Delete(ctx context.Context, key string) error
	// List lists the objects whose keys begin with prefix, of which deep also those in
	// directories below.
	List(ctx context.Context, prefix, from string, deep bool, most int) (Page, error)

	Begin(ctx context.Context, key, mark string) (id string, err error)
	// Part uploads a part whose CRC-32C is sum, and returns that of what has arrived.
	Part(ctx context.Context, key, id string, number int, b []byte, sum uint32) (Part, error)
	Complete(ctx context.Context, key, id string, parts []Part, c Condition) (Object, error)
	Abort(ctx context.Context, key, id string) error
	Uploads(ctx context.Context, prefix string) ([]Upload, error)
}
