package dmtcptest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

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
