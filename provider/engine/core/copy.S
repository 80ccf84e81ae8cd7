// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The routine of copy.h whose faults are recovered from, for each processor that has one. Nothing in it has a frame: at
// every fault the return address is where the call has left it, so that the handler can have it return. It is assembly,
// since a compiler may add to a function what counts branches, or guards its stack.
#define FUNCTION(name) .globl name; .hidden name; .type name, STT_FUNC; name: .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name
#define MARK(name) .globl name; .hidden name; name:

#if defined(__x86_64__)

#ifdef __CET__
#include <cet.h>
#endif

    .text
    .balign 64
// rdi: to; rsi: from; rdx: octets. It is not the C library's also because that one copies 2 KiB and more by `rep movsb`,
// which AMD Zen 3 does at a fifteenth of its speed where the target lies 1 to 31 octets ahead of the source, taken modulo
// a page; with headers between payloads each distance comes up in its turn.
FUNCTION(swrnic_copy)
    cmpq $64, %rdx
    ja 2f
    cmpq $32, %rdx
    jbe 3f
    movdqu (%rsi), %xmm0
    movdqu 16(%rsi), %xmm1
    movdqu -32(%rsi,%rdx), %xmm2
    movdqu -16(%rsi,%rdx), %xmm3
    movdqu %xmm0, (%rdi)
    movdqu %xmm1, 16(%rdi)
    movdqu %xmm2, -32(%rdi,%rdx)
    movdqu %xmm3, -16(%rdi,%rdx)
    movl $1, %eax
    ret
// Pieces of 64, then the last 64, which overlap the piece before.
2:  movdqu (%rsi), %xmm0
    movdqu 16(%rsi), %xmm1
    movdqu 32(%rsi), %xmm2
    movdqu 48(%rsi), %xmm3
    movdqu %xmm0, (%rdi)
    movdqu %xmm1, 16(%rdi)
    movdqu %xmm2, 32(%rdi)
    movdqu %xmm3, 48(%rdi)
    addq $64, %rsi
    addq $64, %rdi
    subq $64, %rdx
    cmpq $64, %rdx
    ja 2b
    movdqu -64(%rsi,%rdx), %xmm0
    movdqu -48(%rsi,%rdx), %xmm1
    movdqu -32(%rsi,%rdx), %xmm2
    movdqu -16(%rsi,%rdx), %xmm3
    movdqu %xmm0, -64(%rdi,%rdx)
    movdqu %xmm1, -48(%rdi,%rdx)
    movdqu %xmm2, -32(%rdi,%rdx)
    movdqu %xmm3, -16(%rdi,%rdx)
    movl $1, %eax
    ret
3:  cmpq $16, %rdx
    jb 4f
    movdqu (%rsi), %xmm0
    movdqu -16(%rsi,%rdx), %xmm3
    movdqu %xmm0, (%rdi)
    movdqu %xmm3, -16(%rdi,%rdx)
    movl $1, %eax
    ret
4:  cmpq $8, %rdx
    jb 5f
    movq (%rsi), %rax
    movq -8(%rsi,%rdx), %rcx
    movq %rax, (%rdi)
    movq %rcx, -8(%rdi,%rdx)
    movl $1, %eax
    ret
5:  cmpq $4, %rdx
    jb 6f
    movl (%rsi), %eax
    movl -4(%rsi,%rdx), %ecx
    movl %eax, (%rdi)
    movl %ecx, -4(%rdi,%rdx)
    movl $1, %eax
    ret
6:  testq %rdx, %rdx
    jz 7f
    movzbl (%rsi), %eax
    movb %al, (%rdi)
    incq %rsi
    incq %rdi
    decq %rdx
    jmp 6b
7:  movl $1, %eax
    ret
END(swrnic_copy)

// rdi: at; rsi: add; rdx: original
FUNCTION(swrnic_fetch_add)
    lock xaddq %rsi, (%rdi)
    movq %rsi, (%rdx)
    movl $1, %eax
    ret
END(swrnic_fetch_add)

// rdi: at; rsi: compare; rdx: swap; rcx: original
FUNCTION(swrnic_compare_swap)
    movq %rsi, %rax
    lock cmpxchgq %rdx, (%rdi)
    movq %rax, (%rcx)
    movl $1, %eax
    ret
END(swrnic_compare_swap)
MARK(swrnic_copy_end)

FUNCTION(swrnic_copy_failed)
    xorl %eax, %eax
    ret
END(swrnic_copy_failed)

#elif defined(__aarch64__)

    .text
    .balign 64
// x0: to; x1: from; x2: octets. x3 and x4 are the ends of both.
FUNCTION(swrnic_copy)
    add x3, x1, x2
    add x4, x0, x2
    cmp x2, #64
    b.hi 2f
    cmp x2, #32
    b.ls 3f
    ldp q0, q1, [x1]
    ldp q2, q3, [x3, #-32]
    stp q0, q1, [x0]
    stp q2, q3, [x4, #-32]
    mov w0, #1
    ret
// Pieces of 64, then the last 64, which overlap the piece before.
2:  ldp q0, q1, [x1]
    ldp q2, q3, [x1, #32]
    stp q0, q1, [x0]
    stp q2, q3, [x0, #32]
    add x1, x1, #64
    add x0, x0, #64
    sub x2, x2, #64
    cmp x2, #64
    b.hi 2b
    ldp q0, q1, [x3, #-64]
    ldp q2, q3, [x3, #-32]
    stp q0, q1, [x4, #-64]
    stp q2, q3, [x4, #-32]
    mov w0, #1
    ret
3:  cmp x2, #16
    b.lo 4f
    ldr q0, [x1]
    ldr q1, [x3, #-16]
    str q0, [x0]
    str q1, [x4, #-16]
    mov w0, #1
    ret
4:  cmp x2, #8
    b.lo 5f
    ldr x5, [x1]
    ldr x6, [x3, #-8]
    str x5, [x0]
    str x6, [x4, #-8]
    mov w0, #1
    ret
5:  cmp x2, #4
    b.lo 6f
    ldr w5, [x1]
    ldr w6, [x3, #-4]
    str w5, [x0]
    str w6, [x4, #-4]
    mov w0, #1
    ret
6:  cbz x2, 7f
    ldrb w5, [x1], #1
    strb w5, [x0], #1
    sub x2, x2, #1
    b 6b
7:  mov w0, #1
    ret
END(swrnic_copy)

// Exclusive loads and stores, which every ARMv8 has. A store that has lost the line is tried again.
// x0: at; x1: add; x2: original
FUNCTION(swrnic_fetch_add)
1:  ldaxr x3, [x0]
    add x4, x3, x1
    stlxr w5, x4, [x0]
    cbnz w5, 1b
    str x3, [x2]
    mov w0, #1
    ret
END(swrnic_fetch_add)

// x0: at; x1: compare; x2: swap; x3: original
FUNCTION(swrnic_compare_swap)
1:  ldaxr x4, [x0]
    cmp x4, x1
    b.ne 2f
    stlxr w5, x2, [x0]
    cbnz w5, 1b
2:  str x4, [x3]
    mov w0, #1
    ret
END(swrnic_compare_swap)
MARK(swrnic_copy_end)

FUNCTION(swrnic_copy_failed)
    mov w0, #0
    ret
END(swrnic_copy_failed)

#ifdef __ARM_FEATURE_BTI_DEFAULT
// GNU_PROPERTY_AARCH64_FEATURE_1_AND: nothing here is called indirectly (BTI), nor signs its return address (PAC). The
// linker drops the property from a library if one of its objects has none.
    .section .note.gnu.property, "a"
    .balign 8
    .word 4, 16, 5
    .asciz "GNU"
    .word 0xc0000000, 4, 3, 0
#endif

#endif

    .section .note.GNU-stack, "", %progbits
