package darshan

import "fmt"

// The modules, by the number in the header.
const (
	posix      = 1
	mpiio      = 2
	h5d        = 4
	pnetcdfVar = 6
	lustre     = 8
	stdio      = 9
	dxtPOSIX   = 10
	dxtMPIIO   = 11
)

var moduleNames = [...]string{"NULL", "POSIX", "MPI-IO", "H5F", "H5D", "PNETCDF_FILE", "PNETCDF_VAR", "BG/Q", "LUSTRE", "STDIO", "DXT_POSIX", "DXT_MPIIO", "MDHIM",
	"APXC", "APMPI", "HEATMAP", "DFS", "DAOS"}

func moduleName(i int) string {
	if i < len(moduleNames) {
		return moduleNames[i]
	}
	return fmt.Sprintf("number %d", i)
}

// latest has the newest version of the modules that this package reads.
var latest = map[int]uint32{posix: 4, mpiio: 3, stdio: 2, lustre: 2, dxtPOSIX: 2, dxtMPIIO: 3}

// aboveOthers has the modules that this package does not read without losing I/O. The
// libraries of H5F, H5D, PNETCDF_FILE and PNETCDF_VAR call MPI-IO, POSIX or stdio,
// HEATMAP adds up other modules, BG/Q, APXC and APMPI know no files.
var aboveOthers = map[int]bool{3: true, h5d: true, 5: true, pnetcdfVar: true, 7: true, 13: true, 14: true, 15: true}
