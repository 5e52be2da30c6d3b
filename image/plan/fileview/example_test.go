package fileview_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"ckpt/image/plan/fileview"
)

// Four ranks have written their library and data zones to one file, one after
// the other. Rank 2 gets its data zone back, and rank 1 writes two dirty pages
// of its own, with a lock that other processes see.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const header, library, data, page = 4, 4, 8, 2
	file, err := os.Create(filepath.Join(dir, "image"))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	fmt.Fprint(file, "HEADLIB0aaaaaaaaLIB1bbbbbbbbLIB2ccccccccLIB3dddddddd")

	zones, err := fileview.NewView(header+library, []fileview.Tuple{{Size: data, Hole: library}}, 4)
	if err != nil {
		log.Fatal(err)
	}
	f, err := fileview.NewFile(file, zones, fileview.Options{})
	if err != nil {
		log.Fatal(err)
	}
	zone := make([]byte, data)
	if _, err := f.ReadAt(zone, 2*data); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("data zone of rank 2: %s\n", zone)

	// Pages 0 and 2 of rank 1 are dirty, page 1 between them is not.
	begin, _, _ := zones.Offset(1 * data)
	dirty, err := fileview.NewView(begin, []fileview.Tuple{{Size: page, Hole: page}, {Size: page}}, 1)
	if err != nil {
		log.Fatal(err)
	}
	lock, err := fileview.NewOFDLock(file)
	if err != nil {
		log.Fatal(err)
	}
	f, err = fileview.NewFile(file, dirty, fileview.Options{Rule: fileview.Extent, Locker: lock})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("1122"), 0); err != nil {
		log.Fatal(err)
	}
	image, err := os.ReadFile(file.Name())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", image)
	// Output:
	// data zone of rank 2: cccccccc
	// HEADLIB0aaaaaaaaLIB111bb22bbLIB2ccccccccLIB3dddddddd
}

// The example shows the decisions of the rules for 1,000 pages of 4 KiB, every other
// page of a file, on a disk behind Gigabit Ethernet.
func ExampleFile_Plan() {
	pages, err := fileview.NewView(0, []fileview.Tuple{{Size: 4096, Hole: 4096}}, 1000)
	if err != nil {
		log.Fatal(err)
	}
	for _, rule := range []fileview.Method{fileview.Naive, fileview.ROMIO, fileview.PerformanceModel} {
		f, err := fileview.NewFile(nil, pages, fileview.Options{
			Rule:   rule,
			Device: fileview.Device{Bandwidth: 118 << 20, Latency: 1080 * time.Microsecond},
		})
		if err != nil {
			log.Fatal(err)
		}
		s := f.Plan(fileview.Read, 0, pages.Size())
		fmt.Println(rule, s.Reads, "calls", s.Read, "bytes")
	}
	// Output:
	// naive 1000 calls 4096000 bytes
	// romio 2 calls 8187904 bytes
	// performance-model 2 calls 8183808 bytes
}
