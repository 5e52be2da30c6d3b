package image

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"ckpt/image/vfs"
	"ckpt/zones"
	"golang.org/x/sys/unix"
)

func TestPerf(t *testing.T) {
	size := 1 << 30
	mem, _ := unix.Mmap(-1, 0, size, 3, unix.MAP_ANON|unix.MAP_PRIVATE)
	for i := 0; i < size; i += 8 {
		mem[i] = byte(i >> 12)
		mem[i+3] = byte(i >> 5)
	}
	ctx := context.Background()
	k := newJob(t, vfs.OS{}, t.TempDir())
	tx, _ := k.job.Begin(1)
	regs := []zones.Region{{Name: "u", Zone: zones.Data, Size: int64(size), Mem: mem}}
	for _, small := range []bool{false, true} {
	if small {
		regs = nil
		for i := 0; i < size/(64<<10); i++ { regs = append(regs, zones.Region{Name: fmt.Sprint(i), Zone: zones.Data, Size: 64 << 10, Mem: mem[i*65536:][:65536:65536]}) }
	}
	for r := 0; r < 3; r++ {
		os.Remove(tx.RankPath(0))
		st := time.Now()
		fi, err := Write(ctx, vfs.OS{}, tx.RankPath(0), Header{testJob, 1, 0, 0, KindRank}, regs, WriteOptions{})
		fmt.Println("write", small, float64(size)/(1<<20)/time.Since(st).Seconds(), fi.ManagementTime, err)
		m := testManifest(1)
		m.Files = []File{{"0001/rank-0.img", KindRank, []int{0}, 0, fi.Bytes, fi.IndexBlake3}}
		m.Job, m.Number = testJob, 1
		st = time.Now()
		err = k.job.Load(ctx, m, "0001/rank-0.img", regs)
		fmt.Println("load", float64(size)/(1<<20)/time.Since(st).Seconds(), err)
	}}
}
