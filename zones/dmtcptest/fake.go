package dmtcptest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Ranks is how many ranks the program has, Peers how many processes.
const (
	Ranks = 4
	Peers = Ranks + 2
)

// Hold is the end of the name of a file that keeps the program from counting.
const Hold = ".hold"

// faultsName is the variable with the name of the file of faults.
const faultsName = "FAKE_DMTCP"

var programs = map[string]func(args []string) int{
	"dmtcp_launch": launch, "dmtcp_restart": restart, "dmtcp_coordinator": coordinate, "dmtcp_command": command,
}

// Serve acts as a program of DMTCP, if this process was started as one. Then it does not
// return.
func Serve() {
	if run := programs[filepath.Base(os.Args[0])]; run != nil {
		os.Exit(run(os.Args[1:]))
	}
}

// Install makes the programs of DMTCP in a directory, out of this executable.
func Install(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for name := range programs {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// fault returns the rest of the line of a fault, false if it is not to be shown.
func fault(name string) (string, bool) {
	file := os.Getenv(faultsName)
	b, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i, line := range lines {
		fault, once := strings.CutPrefix(line, "once ")
		rest, ok := strings.CutPrefix(fault, name)
		if !ok {
			continue
		}
		if once {
			left := strings.Join(slices.Delete(lines, i, i+1), "\n")
			if err := os.WriteFile(file, []byte(left), 0o600); err != nil {
				panic(err)
			}
		}
		return strings.TrimSpace(rest), true
	}
	return "", false
}

// held reports whether the program is not to count.
func held() bool {
	_, err := os.Stat(os.Getenv(faultsName) + Hold)
	return err == nil
}

func complain(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	return failed
}

// failed is the exit status of DMTCP's programs.
const failed = 99

// arguments are the settings of a program and what comes behind them.
type arguments struct {
	set  map[string]string
	rest []string
}

// read reads settings; those in flags have no value.
func read(args []string, flags ...string) arguments {
	a := arguments{set: map[string]string{}}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name := strings.TrimLeft(args[0], "-")
		if slices.Contains(flags, name) {
			a.set[name], args = "yes", args[1:]
			continue
		}
		if len(args) < 2 {
			break
		}
		a.set[name], args = args[1], args[2:]
	}
	a.rest = args
	return a
}

// dial connects to the coordinator. All that connect must say to join one.
func (a arguments) dial() (net.Conn, error) {
	if a.set["j"] == "" || os.Getenv("DMTCP_GZIP") != "0" || os.Getenv("DMTCP_CHECKPOINT_INTERVAL") != "" {
		return nil, fmt.Errorf("not joined, or another environment: %v", a.set)
	}
	return net.Dial("tcp", a.set["h"]+":"+a.set["p"])
}

func launch(args []string) int {
	if len(args) == 1 && strings.TrimLeft(args[0], "-") == "version" {
		version := "5.0"
		if _, ok := fault("old-version"); ok {
			version = "3.1.2"
		}
		fmt.Printf("dmtcp_launch (DMTCP) %s\nLicense LGPLv3+: GNU LGPL version 3 or later\n", version)
		return 0
	}
	a := read(args, "q", "j")
	conn, err := a.dial()
	if err != nil {
		return complain("Coordinator not found, although joining one was asked for: %v", err)
	}
	shell := []string{"/bin/sh", "-c", "", "sh", ""}
	if len(a.rest) == len(shell)+3 {
		shell[2], shell[4] = a.rest[2], a.rest[4]
	}
	if _, ok := fault("fail-launch"); ok || len(a.rest) != len(shell)+3 || !slices.Equal(a.rest[:len(shell)], shell) || a.rest[5] != "count" {
		return complain("Executable to run w/ DMTCP appears not to be readable: %q", a.rest)
	}
	p := &program{conn: conn, dir: os.Getenv("DMTCP_CHECKPOINT_DIR"), script: shell[2], mark: shell[4]}
	if _, err := fmt.Sscan(a.rest[6], &p.steps); err != nil {
		return complain("%v", err)
	}
	if p.pause, err = time.ParseDuration(a.rest[7]); err != nil {
		return complain("%v", err)
	}
	return p.run()
}

func restart(args []string) int {
	a := read(args, "q", "j")
	if _, ok := fault("fail-restart"); ok {
		return complain("mtcp_restart failed")
	}
	conn, err := a.dial()
	if err != nil {
		return complain("Coordinator not found, although joining one was asked for: %v", err)
	}
	p, err := restore(a.rest)
	if err != nil {
		return complain("%v", err)
	}
	p.conn, p.dir = conn, a.set["ckptdir"]
	if _, ok := fault("hang-restart"); ok {
		p.missing = 1
	}
	return p.run()
}

func command(args []string) int {
	if len(args) != 5 || args[0] != "-h" || args[2] != "-p" {
		return complain("usage: %q", args)
	}
	conn, err := net.Dial("tcp", args[1]+":"+args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "Coordinator not found. Please check port and host.")
		return 2
	}
	fmt.Fprintf(conn, "command %s\n", args[4])
	in := bufio.NewScanner(conn)
	for in.Scan() {
		if in.Text() == "not running" {
			fmt.Fprintln(os.Stderr, "Error, computation not in running state.")
			return 2
		}
		fmt.Println(in.Text())
	}
	return 0
}
