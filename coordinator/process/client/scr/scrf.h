! scrf.h: the constants of SCR's interface in Fortran, for fixed and free form. The procedures are
! in scr.h, compiled once:
!
!     ckpt sdk c -o ckpt.h && ckpt sdk scr -o scr.h && ckpt sdk scr-fortran -o scrf.h
!     mpicc -c -x c -include mpi.h scr.h -o scr_c.o
!     mpifort heat.f90 scr_c.o -o heat
      INTEGER SCR_SUCCESS, SCR_MAX_FILENAME
      PARAMETER (SCR_SUCCESS=0, SCR_MAX_FILENAME=1024)
      INTEGER SCR_FLAG_NONE, SCR_FLAG_CHECKPOINT, SCR_FLAG_OUTPUT
      PARAMETER (SCR_FLAG_NONE=0, SCR_FLAG_CHECKPOINT=1)
      PARAMETER (SCR_FLAG_OUTPUT=2)
