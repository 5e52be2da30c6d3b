package iotrace

import "testing"

const csvHeader = "op,module,zone,create,rank,node,file,peer,peer_node,checkpoint,round,offset,bytes,start_ns,end_ns\n"

var heads = []struct {
	head string
	want Format
}{
	{"", formatEmpty},
	{magic + "....", FormatEvents},
	{"PAR1....", FormatParquet},
	{"\x1f\x8b\x08", formatPacked},
	{"\x28\xb5\x2f\xfd", formatPacked},
	{"\xfd7zXZ\x00", formatPacked},
	{"BZh9", formatPacked},
	{"\x7fELF\x02", formatELF},
	{"1.4\x00\x00\x00\x00\x00\x00\x00\x00\x00", FormatDarshan},
	{"3.41\x00\x00\x00\x00\x37\x35\x64\x00\x00\x00\x00\x00\x00\x01", FormatDarshan},
	{"3.41\x00\x00\x00\x00\x00\x00\x00\x00\x00\x64\x35\x37\x00\x01", FormatDarshan},
	{"# darshan log version: 3.41\n# compression method: ZLIB\n", FormatDXT},
	{"\n# DXT, file_id: 1, file_name: f\n", FormatDXT},
	{"# darshan log version: 3.41\n# description of columns:\n", formatDarshanText},
	{"#ckpt-trace,1\n", FormatCSV},
	{csvHeader, FormatCSV},
	{"\ufeff\"end_ns\",\"op\",x,\"start_ns\"\r\n1,read", FormatCSV},
	{"op,module,zone\n", FormatUnknown},
	{`{"type":"trace","job":"j"}`, FormatJSON},
	{`[{"name":"x"}]`, FormatJSON},
	{`{"traceEvents":[]}`, FormatJSON},
	{"% time     seconds  usecs/call     calls    errors syscall\n", formatStraceCount},
	{"execve(\"/bin/true\", [\"true\"], 0x7ff /* 35 vars */) = 0\n", FormatStrace},
	{"10057 execve(\"/bin/true\", [\"true\"], 0x7ff /* 35 vars */) = 0\n10057 brk(NULL) = 0x5\n", FormatStrace},
	{"[pid 10057] 12:00:00.123456 <... read resumed>\"\", 5) = 0 <0.1>\n", FormatStrace},
	{"1 1700000000.5 +++ exited with 0 +++\n", FormatStrace},
	{"--- SIGCHLD {si_signo=SIGCHLD} ---\n", FormatStrace},
	{"strace: Process 7 attached\n", FormatStrace},
	{"12:00:00 (+     0.000012) close(3</etc/passwd>) = 0\n", FormatStrace},
	{"     0.000012 close(3) = 0\n", FormatStrace},
	{"12:00:00 (+0.5) close(3) = 0\n", FormatStrace},
	{"1 12:00:00 (+     0.000012) [00007fe68f00838f] close(3) = 0\n", FormatStrace},
	{"1 12:00:00 (+     0.000012) [   3] close(3) = 0\n", FormatStrace},
	{"[pid 11<cat>] 12:00:00 close(3) = 0\n", FormatStrace},
	{"11<cat> 12:00:00 <... close resumed>) = 0\n", FormatStrace},
	{"hello\nwrite(1, \"x\", 1) = 1\nwrite(1, \"y\", 1) = 1\n", FormatStrace},
	{"int main(void)\n{\n\treturn 0;\n}\n", FormatUnknown},
	{"hello, world\n", FormatUnknown},
	{"  \n\n", FormatUnknown},
	{"(((", FormatUnknown},
}

func TestDetect(t *testing.T) {
	for _, h := range heads {
		if got := Detect([]byte(h.head)); got != h.want {
			t.Errorf("%.40q is %v, not %v", h.head, got, h.want)
		}
	}
}

func TestNames(t *testing.T) {
	for op := Op(0); op < opEnd+1; op++ {
		got, err := ParseOp(op.String())
		if (err == nil) != op.Valid() || op.Valid() && got != op {
			t.Errorf("%v: %v, %v", op, got, err)
		}
	}
	for m := Module(0); m < 3; m++ {
		if got := m.String(); got != [...]string{"POSIX", "MPIIO", "STDIO"}[m] {
			t.Errorf("%d: %s", m, got)
		}
	}
	for z := 0; z < 256; z++ {
		if got, err := ParseZone(Zone(z).String()); err != nil || got != Zone(z) {
			t.Errorf("%d: %v, %v", z, got, err)
		}
	}
	for _, name := range []string{"1", "05", "256", "-1", "heap", "+7"} {
		if z, err := ParseZone(name); err == nil {
			t.Errorf("%q is zone %d", name, z)
		}
	}
}
