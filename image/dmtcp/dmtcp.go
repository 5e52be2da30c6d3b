// Package dmtcp keeps the checkpoints of DMTCP in a store, and exports them. It adds checksums,
// libraries and shared segments stored once, and retention.
//
//	set, err := dmtcp.Collect(ctx, names, dmtcp.CollectOptions{Rules: zones.DefaultRules()})
//	m, err := set.Import(ctx, job, dmtcp.Options{})
//	...
//	files, err := dmtcp.Export(ctx, job, m, dir, nil)
//
// # Promises
//
//   - Export writes, byte by byte, the files that Collect found: images, directories of shared
//     files, restart scripts, with names, modes, and times except of links. It compares
//     the blake3 of each file with the import before it reports success.
//   - Import parses an image before it stores any of it, and refuses a damaged one; nothing of
//     the checkpoint remains then.
//   - Memory is bounded: some MiB, and 250 bytes per extent.
//   - An import refers to an earlier checkpoint only after having verified it.
//   - The same files make the same checkpoint, byte for byte.
//
// # How an image is stored
//
// A container file per process mirrors its memory: a region per area, named by address and
// name, with the touched ranges as extents of at most 256 KiB, cut at multiples of that, and
// the untouched ones as zeros. An extent known from this or the previous checkpoint becomes a
// reference. Extents of the zone library are collected in library.img, those of the zone shared
// in a file per node. The last region, "layout", has the headers of the image, and where the
// data behind each is.
//
// Compressed images are stored as they are: packing them again would give other bytes. Other
// files are in files.img, whose region "catalog" lists everything that Export makes.
package dmtcp

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"ckpt/image"
	"ckpt/zones"
)

// Origin is the origin in the manifest of an imported checkpoint of DMTCP.
const Origin = "dmtcp"

// The names of regions that are not areas of memory.
const (
	layoutRegion  = image.LayoutRegion
	catalogRegion = "catalog"
	packRegion    = "extents"
)

// chunkBytes is the length of an extent, whose address is a multiple of it. Smaller ones find
// more in common and cost more: 64 bytes in the index, 150 in the memory of an import.
const chunkBytes = 256 << 10

// A catalog lists the files of an imported checkpoint.
type catalog struct {
	Format  int     `json:"format"` // 1
	Origin  string  `json:"origin"`
	Entries []entry `json:"entries"`
}

// entry is a file, symbolic link or directory.
type entry struct {
	Path    fileName  `json:"path"` // slash-separated, relative
	Type    entryType `json:"type"`
	Mode    uint32    `json:"mode"` // of fs.FileMode: permissions, setuid, setgid, sticky
	ModTime time.Time `json:"mod_time"`
	Bytes   int64     `json:"bytes"`
	Blake3  string    `json:"blake3,omitempty"`
	Target  fileName  `json:"target,omitzero"` // of a symbolic link
	// Container is the file with the contents, relative to the directory of the job; empty for
	// files.img.
	Container string `json:"container,omitempty"`
}

// A fileName is any bytes: in JSON UTF-8, or {"hex": "…"}.
type fileName string

func (n fileName) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return json.Marshal(string(n))
	}
	return json.Marshal(struct {
		Hex string `json:"hex"`
	}{hex.EncodeToString([]byte(n))})
}

func (n *fileName) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(n))
	}
	var raw struct {
		Hex string `json:"hex"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	name, err := hex.DecodeString(raw.Hex)
	*n = fileName(name)
	return err
}

// local reports whether the name leads nowhere but below a directory.
func (n fileName) local() bool {
	return n != "." && filepath.IsLocal(string(n)) && path.Clean(string(n)) == string(n) && !strings.Contains(string(n), "\x00")
}

// region names the region of files.img that holds a file.
func (n fileName) region() string { return "file " + string(n) }

// maxPath keeps the names of regions within the limit of the format.
const maxPath = 1000

type entryType string

const (
	imageEntry  entryType = "image"  // parsed, in a container of its own
	packedEntry entryType = "packed" // a compressed image, as it is
	fileEntry   entryType = "file"
	linkEntry   entryType = "symlink"
	dirEntry    entryType = "dir"
)

const maxCatalog = 256 << 20

// regionName names the region of an area: the address first, so that names differ, and stay for
// an area that grows.
func regionName(a *zones.Area) string {
	name := fmt.Sprintf("%x %s", a.Start, a.Name)
	return name[:min(len(name), 1024)]
}

// regionZone is the zone under which an area is stored; what belongs to the checkpointer goes
// with the libraries.
func regionZone(c zones.Class) zones.Zone {
	if z, ok := c.Zone(); ok {
		return z
	}
	return zones.Library
}
