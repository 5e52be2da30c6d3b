package dmtcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/zones"
	"ckpt/zones/source"
)

// A Set is the files of one checkpoint of DMTCP.
type Set struct {
	// Images are the images of ranks, in their order, then of launchers.
	Images []Image
	// NP is the number of ranks, Mapping how many there are on each node.
	NP      int
	Mapping []int
	// Peers is how many processes the computation had: with Partial, more than images.
	Peers int
	// Guessed: the images do not tell their MPI ranks and are numbered by virtual process ids.
	// Renumbered: some are missing, and the others were numbered from 0.
	Guessed, Renumbered bool

	base  string
	files []found // that are not images
}

// Image is a file with the memory of a process.
type Image struct {
	*zones.Process
	Path string
	Node int

	packed bool
	info   fs.FileInfo
}

// found is a file, symbolic link or directory beside the images.
type found struct {
	path   string
	info   fs.FileInfo
	target string
}

// CollectOptions are the settings of Collect.
type CollectOptions struct {
	Rules *zones.Rules
	// Partial accepts a checkpoint of which images are missing.
	Partial bool
	// Progress, if not nil, is told the bytes of images looked at since its last call.
	Progress func(int64)
	// Earlier is of the checkpoint that the processes restarted from; may be nil.
	Earlier Earlier
}

// A SetError says why files are not one checkpoint, and what to do.
type SetError struct {
	Text, Fix string
	Missing   bool // images are missing: Partial accepts that
}

func (e *SetError) Error() string { return e.Text }

// Hint returns what to do about it.
func (e *SetError) Hint() string { return e.Fix }

// Collect finds the files of one checkpoint, by the names of images or of directories with
// them. It adds what DMTCP puts beside an image: its directory of shared files, the restart
// scripts. It fails with a SetError, a zones.FormatError for a damaged image, or as the file
// system does.
func Collect(ctx context.Context, names []string, opt CollectOptions) (*Set, error) {
	paths, err := imagePaths(names)
	if err != nil {
		return nil, err
	}
	s := &Set{}
	groups := make(map[string]bool)
	for _, p := range paths {
		img, err := readImage(ctx, p, opt)
		if err != nil {
			return nil, err
		}
		groups[img.Group] = true
		s.Peers = max(s.Peers, img.Peers)
		s.Images = append(s.Images, *img)
	}
	if len(groups) > 1 {
		return nil, mixed(s.Images)
	}
	pids := make(map[string]string)
	for _, img := range s.Images {
		id := fmt.Sprintf("%s-%d", img.Host, img.PID)
		if other, ok := pids[id]; ok {
			return nil, &SetError{Text: fmt.Sprintf("%s and %s are images of the same process", other, img.Path), Fix: "give the newer one only"}
		}
		pids[id] = img.Path
	}
	if len(s.Images) < s.Peers && !opt.Partial {
		return nil, &SetError{Text: fmt.Sprintf("the computation has %d processes, but %d images are given", s.Peers, len(s.Images)),
			Fix: "give all images (every node may have its own directory)", Missing: true}
	}
	ps := make([]*zones.Process, len(s.Images))
	for i := range s.Images {
		ps[i] = s.Images[i].Process
	}
	source.Settle(ps)
	if err := s.order(); err != nil {
		return nil, err
	}
	s.base = commonDir(paths)
	if err := s.companions(); err != nil {
		return nil, err
	}
	return s, s.checkPaths()
}

// mixed says that images are not of one checkpoint, by an example.
func mixed(images []Image) error {
	a := &images[0]
	for i := range images {
		if b := &images[i]; b.Group != a.Group {
			return &SetError{Text: fmt.Sprintf("%s and %s are of different checkpoints (%s, %s)", a.Path, b.Path, a.Group, b.Group),
				Fix: "import one checkpoint after the other, each by the names of its files; a directory in which DMTCP was killed may hold parts of two"}
		}
	}
	return nil
}

// checkPaths refuses names that have no place in a store.
func (s *Set) checkPaths() error {
	paths := make([]string, 0, len(s.Images)+len(s.files))
	for _, img := range s.Images {
		paths = append(paths, img.Path)
	}
	for _, f := range s.files {
		paths = append(paths, f.path)
	}
	for _, p := range paths {
		if n := len(p) - len(s.base); n > maxPath {
			return &SetError{Text: fmt.Sprintf("the name %.60q… is %d bytes long, limit %d", p[len(s.base):], n, maxPath), Fix: "move the images to a place with shorter names"}
		}
	}
	return nil
}

// imagePaths lists the images that names stand for, each once, sorted.
func imagePaths(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		fi, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() {
			if ok, err := isImage(name); err != nil {
				return nil, err
			} else if !ok {
				return nil, &SetError{Text: name + " is not an image of DMTCP", Fix: "files beside the images need not be named: they come along"}
			}
			out = append(out, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		n := len(out)
		for _, e := range entries {
			p := filepath.Join(name, e.Name())
			if fi, err := os.Stat(p); err != nil || !fi.Mode().IsRegular() {
				continue
			}
			ok, err := isImage(p)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, p)
			}
		}
		if len(out) == n {
			return nil, &SetError{Text: "no image of DMTCP is in " + name, Fix: "images are called ckpt_PROGRAM_ID.dmtcp"}
		}
	}
	for i, p := range out {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		out[i] = abs
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func isImage(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := source.Head(f)
	return source.IsImage(head), err
}

func readImage(ctx context.Context, path string, opt CollectOptions) (*Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p, err := source.ReadImage(ctx, path, f, fi.Size())
	if err != nil {
		return nil, err
	}
	if space := addressSpace(p); space > maxSpace {
		return nil, &SetError{Text: fmt.Sprintf("%s maps %d TiB of address space, limit %d", path, space>>40, int64(maxSpace)>>40),
			Fix: "keep the file as it is: an index of that much memory would be larger than the image"}
	}
	// Names in manifests and on terminals are text.
	p.Name = zones.Printable(p.Name)
	opt.Rules.Classify(p)
	if known, ok := opt.Earlier[filepath.Base(path)]; ok {
		known.restore(p)
	}
	if opt.Progress != nil {
		opt.Progress(fi.Size())
	}
	return &Image{Process: p, Path: path, packed: p.FileBytes != p.Unpacked, info: fi}, nil
}

// maxSpace is the largest address space that is mirrored: an extent of zeros spans 64 MiB and
// takes 64 bytes. Sanitizers reserve 20 TiB.
const maxSpace = 1 << 46

func addressSpace(p *zones.Process) int64 {
	var n int64
	for i := range p.Areas {
		n += p.Areas[i].Bytes()
	}
	return n
}

// order puts the ranks first, in their order, and finds the nodes.
func (s *Set) order() error {
	seen := make(map[int]bool)
	for _, img := range s.Images {
		if img.Role != zones.RoleRank {
			continue
		}
		s.NP++
		if img.Rank < 0 || seen[img.Rank] {
			s.Guessed = true
		}
		seen[img.Rank] = true
	}
	if s.NP == 0 {
		return &SetError{Text: "all images are of launchers, none of a rank", Fix: "give the images of the application as well"}
	}
	for r := range seen {
		s.Renumbered = s.Renumbered || !s.Guessed && r >= s.NP
	}
	slices.SortFunc(s.Images, func(a, b Image) int {
		byRank := 0
		if !s.Guessed {
			byRank = cmp.Compare(a.Rank, b.Rank)
		}
		return cmp.Or(cmp.Compare(b.Role, a.Role), byRank, cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID))
	})
	nodes := make(map[string]int)
	for i := range s.Images {
		img := &s.Images[i]
		if img.Role == zones.RoleRank {
			img.Rank = i
			if _, ok := nodes[img.Host]; !ok {
				nodes[img.Host] = len(s.Mapping)
				s.Mapping = append(s.Mapping, 0)
			}
			s.Mapping[nodes[img.Host]]++
		}
		node, ok := nodes[img.Host]
		if !ok {
			node = -1
		}
		img.Node = node
	}
	return nil
}

// commonDir returns the directory that holds all paths.
func commonDir(paths []string) string {
	dir := filepath.Dir(paths[0])
	for _, p := range paths[1:] {
		for dir != "/" && !strings.HasPrefix(p, dir+string(filepath.Separator)) {
			dir = filepath.Dir(dir)
		}
	}
	return dir
}

// companions finds what lies beside the images.
func (s *Set) companions() error {
	dirs := make(map[string]bool)
	for _, img := range s.Images {
		dirs[filepath.Dir(img.Path)] = true
		name, _ := source.CompanionDir(img.Path)
		if err := s.walk(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	group, _, _ := strings.Cut(s.Images[0].Group, "#") // without the number of the checkpoint
	for dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		scripts := slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), "dmtcp_restart_script") })
		for _, e := range scripts {
			name := filepath.Join(dir, e.Name())
			f, err := look(name)
			if err != nil {
				return err
			}
			// The script of this computation, and the link to the newest one.
			if strings.Contains(filepath.Base(name), group) || strings.Contains(f.target, group) || f.target == "" && len(scripts) == 1 {
				s.files = append(s.files, *f)
			}
		}
	}
	slices.SortFunc(s.files, func(a, b found) int { return cmp.Compare(a.path, b.path) })
	return nil
}

func (s *Set) walk(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := look(path)
		if err != nil {
			return err
		}
		if t := f.info.Mode().Type(); t&^(fs.ModeDir|fs.ModeSymlink) != 0 {
			return &SetError{Text: fmt.Sprintf("%s is neither a file nor a directory", path), Fix: "remove it: it cannot be stored"}
		}
		s.files = append(s.files, *f)
		return nil
	})
}

func look(path string) (*found, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	f := &found{path: path, info: fi}
	if fi.Mode()&fs.ModeSymlink != 0 {
		f.target, err = os.Readlink(path)
	}
	return f, err
}

// Files returns the number of files, links and directories, and the bytes of the files: all
// that the checkpoint takes (Gstored).
func (s *Set) Files() (n int, bytes int64) {
	for _, img := range s.Images {
		n++
		bytes += img.info.Size()
	}
	for _, f := range s.files {
		n++
		if f.info.Mode().IsRegular() {
			bytes += f.info.Size()
		}
	}
	return n, bytes
}
