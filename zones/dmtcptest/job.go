package dmtcptest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ckpt/zones"
)

// Options say what job Job makes. Zero values stand for the defaults. Sizes
// are in bytes and rounded up to pages.
type Options struct {
	Seed      uint64
	Name      string // of the program; app by default
	Nodes     int    // over which the ranks are spread in blocks; 1
	OpenMPI   bool   // instead of MPICH
	Private   int64  // data of a rank, different in each; 1 MiB
	Shared    int64  // the segment of a node's ranks; 1 MiB. Open MPI's is in no image
	Libraries int64  // code of the MPI library, the same in every image; 1 MiB
	Arena     bool   // put in the memory of DMTCP's allocator, 12 MiB an image
	Gzip      bool
	// Repeating makes contents that repeat every 512 bytes, for images that a
	// repository keeps.
	Repeating bool
}

func (o Options) noise(seed uint64) Contents   { return o.contents(Noise(seed)) }
func (o Options) doubles(seed uint64) Contents { return o.contents(Doubles(seed)) }

func (o Options) contents(data Contents) Contents {
	if o.Repeating {
		return Repeated(data, 512)
	}
	return data
}

// A Checkpoint is what DMTCP writes of a job.
type Checkpoint struct {
	Group ID
	// Images of the ranks, in order, then of the launchers.
	Images []*Image
	Ranks  int

	seed uint64
}

// Where things lie in the processes; everywhere the same, since DMTCP turns off
// the randomization of addresses.
const (
	exeBase     = 0x400000
	heapBase    = 0x1a3d000
	privateBase = 0x7f0000000000
	segmentBase = 0x7f4000000000
	arenaBase   = 0x7f6000000000
	libraryBase = 0x7fff00000000
	stackEnd    = 0x7ffffffff000
)

// Job makes the checkpoint of an MPI job of n ranks and its launchers: the
// first is the root of the process tree, and every node has a proxy.
func Job(n int, o Options) *Checkpoint {
	o = o.withDefaults()
	launcher, proxy := "mpiexec", "hydra_pmi_proxy"
	if o.OpenMPI {
		launcher, proxy = "orterun", "orted"
	}
	started := 0x66a00000 + mix(o.Seed)%0x100000
	pid := int32(40000)
	peers := n + 1 + o.Nodes
	c := &Checkpoint{Ranks: n, seed: o.Seed}

	// process adds an image. Virtual pids are given out in thousands.
	process := func(node int, name string, parent ID, areas []Area) *Image {
		im := &Image{
			Name: name, Exe: "/opt/job/bin/" + name, PPID: parent, Group: c.Group, Peers: peers,
			ID:    ID{Host: 0x7f0100 + uint64(node), Time: started, PID: pid, Generation: 1},
			Areas: areas, Seed: mix(o.Seed ^ uint64(pid)), Gzip: o.Gzip,
		}
		if pid == 40000 {
			c.Group = im.ID
			im.Group = im.ID
		}
		pid += 1000
		return im
	}
	root := process(0, launcher, ID{}, o.launcher(launcher))
	launchers := []*Image{root}
	for node := range o.Nodes {
		launchers = append(launchers, process(node, proxy, root.ID, o.launcher(proxy)))
	}
	for rank := range n {
		node := rank * o.Nodes / n
		c.Images = append(c.Images, process(node, o.Name, launchers[1+node].ID, o.rank(rank, n, node)))
	}
	c.Images = append(c.Images, launchers...)
	return c
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "app"
	}
	o.Nodes = max(o.Nodes, 1)
	for _, size := range []*int64{&o.Private, &o.Shared, &o.Libraries} {
		if *size == 0 {
			*size = 1 << 20
		}
		*size = zones.PageRound(*size)
	}
	return o
}

func (o Options) rank(rank, n, node int) []Area {
	own := mix(o.Seed ^ mix(uint64(rank)))
	areas := o.program(o.Name, own)
	pages := o.Private / block
	areas = append(areas, Anonymous(privateBase, "", o.doubles(own), Touched(pages), Untouched(pages/4+1)))
	if !o.OpenMPI {
		path := fmt.Sprintf("/dev/shm/mpich_shar_tmp%06d", node)
		areas = append(areas, Segment(segmentBase, path, o.Shared, o.noise(mix(o.Seed^inode(path)))))
	}
	mpi, env := "/opt/mpich/lib/libmpich.so.12.1.8", []string{
		"PATH=/usr/bin", fmt.Sprintf("PMI_RANK=%d", rank), fmt.Sprintf("PMI_SIZE=%d", n), "HOME=/home/user"}
	if o.OpenMPI {
		mpi, env = "/opt/openmpi/lib/libmpi.so.40.30.6", []string{
			"PATH=/usr/bin", fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d", rank), fmt.Sprintf("PMIX_RANK=%d", rank), "HOME=/home/user"}
	}
	areas = append(areas, o.runtime(own, mpi)...)
	return append(areas, Stack(stackEnd, 8<<20, 64<<10, o.noise(own+1), env))
}

// launcher returns the memory of a process that starts or serves ranks.
func (o Options) launcher(name string) []Area {
	own := mix(o.Seed ^ inode(name))
	areas := append(o.program(name, own), o.runtime(own, "")...)
	return append(areas, Stack(stackEnd, 8<<20, 64<<10, o.noise(own+1), []string{"PATH=/usr/bin", "HOME=/home/user"}))
}

// program returns the executable, the heap, and what DMTCP reserves above it.
func (o Options) program(name string, own uint64) []Area {
	path := "/opt/job/bin/" + name
	code := o.library(exeBase, path, 40<<10, mix(o.Seed^inode(path)))
	heap := Anonymous(heapBase, "[heap]", o.doubles(own+2), Touched(20), Untouched(13))
	return append(code, heap, Reserved(heap.End, 16<<20))
}

// runtime returns the libraries, and what DMTCP's allocator has mapped.
func (o Options) runtime(own uint64, mpi string) []Area {
	var areas []Area
	if o.Arena {
		areas = append(areas, Arena(arenaBase, o.noise(own+3)))
	}
	at := uint64(libraryBase)
	add := func(path string, code int64) {
		lib := o.library(at, path, code, mix(o.Seed^inode(path)))
		areas = append(areas, lib...)
		at = lib[len(lib)-1].End + 1<<20
	}
	add("/opt/dmtcp/lib/dmtcp/libdmtcp.so", 60<<10)
	if mpi != "" {
		add(mpi, o.Libraries)
	}
	add("/usr/lib/x86_64-linux-gnu/libc.so.6", 100<<10)
	return append(areas, File(at, "/usr/lib/locale/C.utf8/LC_CTYPE", 27_002, o.noise(mix(o.Seed))))
}

// library returns the mappings of an ELF file: code, constants, and data that is
// written to.
func (o Options) library(start uint64, path string, code int64, seed uint64) []Area {
	text := File(start, path, zones.PageRound(code), o.noise(seed))
	text.Prot |= zones.Exec
	constants := File(text.End, path, 3*block, o.noise(seed+1))
	constants.Offset = text.End - text.Start
	data := File(constants.End, path, 2*block, o.noise(seed+2))
	data.Offset = constants.Offset + 3*block
	data.Prot |= zones.Write
	return []Area{text, constants, data}
}

// WriteDir writes into a directory that exists what DMTCP leaves there: the
// images, the files that ranks share beside the image of the first of them, and
// the script that restarts the job.
func (c *Checkpoint) WriteDir(dir string) error {
	for _, im := range c.Images {
		if err := writeImage(filepath.Join(dir, im.FileName()), im); err != nil {
			return err
		}
	}
	if err := c.writeCompanions(dir); err != nil {
		return err
	}
	script := "dmtcp_restart_script_" + c.Group.String() + ".sh"
	if err := os.WriteFile(filepath.Join(dir, script), c.script(dir), 0o700); err != nil {
		return err
	}
	return os.Symlink(script, filepath.Join(dir, "dmtcp_restart_script.sh"))
}

func writeImage(path string, im *Image) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	w := bufio.NewWriterSize(f, 256<<10)
	if _, err := im.WriteTo(w); err != nil {
		return err
	}
	return w.Flush()
}

// writeCompanions writes the directory of one image with what several processes
// map and DMTCP saves once, and the list of where the files belong.
func (c *Checkpoint) writeCompanions(dir string) error {
	dir = filepath.Join(dir, c.Images[0].stem()+"_files")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	var list strings.Builder
	for i, name := range []string{"halo", "mesh"} {
		b := make([]byte, 64<<10+i*1000)
		Noise(mix(c.seed^inode(name)))(b, 0)
		saved := fmt.Sprintf("%s_%d", name, 99001+i)
		if err := os.WriteFile(filepath.Join(dir, saved), b, 0o600); err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s:/dev/shm/%s\n", saved, name)
	}
	return os.WriteFile(filepath.Join(dir, "fd-info.txt"), []byte(list.String()), 0o644)
}

// script returns a restart script with the lines by which programs find the
// images: all of a single host, or of each host by the host's name.
func (c *Checkpoint) script(dir string) []byte {
	var hosts []uint64
	files := make(map[uint64][]string)
	for _, im := range c.Images {
		host := im.ID.Host
		if files[host] == nil {
			hosts = append(hosts, host)
		}
		files[host] = append(files[host], filepath.Join(dir, im.FileName()))
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash\n\n")
	if len(hosts) == 1 {
		fmt.Fprintf(&b, "given_ckpt_files=\" %s\"\n\n", strings.Join(files[hosts[0]], " "))
		b.WriteString("exec dmtcp_restart $given_ckpt_files\n")
		return []byte(b.String())
	}
	b.WriteString("worker_ckpts='")
	for _, host := range hosts {
		fmt.Fprintf(&b, "\n :: node-%x :bg: %s : ssh", host, strings.Join(files[host], " "))
	}
	b.WriteString("\n'\n\n")
	b.WriteString("echo \"this script starts no processes on other hosts\" >&2\nexit 1\n")
	return []byte(b.String())
}
