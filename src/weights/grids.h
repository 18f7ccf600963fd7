// The grids of ggml's types of one to three bits: which eight or four weights stand side by side is a
// number, and a grid has the weights that it stands for. Quantizers chose the combinations that real
// weights need most, so they are data and follow from no formula. They are those of ggml-common.h
// (github.com/ggml-org/ggml).
//
// Entry i of a grid is the characters 2i and 2i + 1. A character less GRID_ZERO is a number of
// several digits, the lowest first, a digit for each weight: four of base 3, or in iq3 two of base 8.
#pragma once

#include <stdint.h>

enum { GRID_ZERO = '#' };

// What the digits of all characters stand for: four of base 3, or two of base 8.
#define FOUR(n, of) of((n) % 3), of((n) / 3 % 3), of((n) / 9 % 3), of((n) / 27)
#define FOURS_3(n, of) FOUR(n, of), FOUR(n + 1, of), FOUR(n + 2, of)
#define FOURS_9(n, of) FOURS_3(n, of), FOURS_3(n + 3, of), FOURS_3(n + 6, of)
#define FOURS_27(n, of) FOURS_9(n, of), FOURS_9(n + 9, of), FOURS_9(n + 18, of)
#define FOURS(of) FOURS_27(0, of), FOURS_27(27, of), FOURS_27(54, of)

#define TWO(n, of) of((n) % 8), of((n) / 8)
#define TWOS_4(n, of) TWO(n, of), TWO(n + 1, of), TWO(n + 2, of), TWO(n + 3, of)
#define TWOS_16(n, of) TWOS_4(n, of), TWOS_4(n + 4, of), TWOS_4(n + 8, of), TWOS_4(n + 12, of)
#define TWOS(of) TWOS_16(0, of), TWOS_16(16, of), TWOS_16(32, of), TWOS_16(48, of)

// -1, 0 and 1 in eighths, and one more or less.
#define IQ1_MORE(digit) (8 * (digit)-7)
#define IQ1_LESS(digit) (8 * (digit)-9)
#define IQ2_NUMBER(digit) ((digit) == 0 ? 8 : (digit) == 1 ? 25 : 43)
#define IQ3_XXS_NUMBER(digit) ((digit) == 7 ? 62 : 4 + 8 * (digit))
#define IQ3_S_NUMBER(digit) (1 + 2 * (digit))

static const int8_t iq1_more_numbers[] = {FOURS(IQ1_MORE)};
static const int8_t iq1_less_numbers[] = {FOURS(IQ1_LESS)};
static const int8_t iq2_numbers[] = {FOURS(IQ2_NUMBER)};
static const int8_t iq3_xxs_numbers[] = {TWOS(IQ3_XXS_NUMBER)};
static const int8_t iq3_s_numbers[] = {TWOS(IQ3_S_NUMBER)};

// What five bits of IQ5_K and IQ5_KS stand for.
static const int8_t iq5_numbers[32] = {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36,
                                       -30,  -24,  -18,  -12, -6,  -1,  5,   11,  17,  23,  29,
                                       36,   43,   51,   59,  68,  77,  87,  97,  109, 121};

// What a nibble of NVFP4 stands for, doubled.
static const int8_t nvfp4_numbers[16] = {0, 1,  2,  3,  4,  6,  8,  12,  // and the same below 0
                                         0, -1, -2, -3, -4, -6, -8, -12};

static const int8_t iq2_k_numbers[4] = {-31, -13, 1, 17};
static const int8_t iq3_k_numbers[8] = {-63, -40, -23, -10, 1, 13, 28, 47};

static const char iq1_grid[] =
    "##%#'#)#+#-#0#5#7#;#=#B#H#J#L#T#Y#[#_#a#f#k#m#q#s#&$'$-$/$1$3$4$9$\?$C$E$I$K$O$Q$S$U$V$]$c$e$"
    "g$o$#%%%)%+%0%5%7%;%=%B%H%N%S%W%Y%[%_%a%c%f%i%k%m%q%s%-&/&1&9&\?&E&K&O&S&T&c&i&o&$'&'''('0'2'"
    "4'<'>'B'F'G'H'J'K'L'N'P'R'T'V'X'Z'c'f'h'j'l'n'o'p'r'/(3(\?(A(G(I(K(M(P(Q(U(W(](c(e(i(#)%)))+)"
    "0)5)7);)=)B)H)L)T)Y)[)_)a)f)k)m)q)s)'*-*/*3*8*9*\?*G*H*K*Q*S*W*c*e*g*i*o*#+%+)+++0+5+7+;+=+B+"
    "H+N+Q+T+Y+[+]+_+a+f+k+m+q+s+,,-,/,3,8,9,\?,A,G,K,M,Q,S,T,W,c,e,g,l,o,$-&-(-*-,-.-0-2-6-8-<-B-"
    "F-G-H-I-J-K-L-N-P-T-\\-d-f-l-n--./.1.9.>.C.E.I.K.M.O.S.U.].c.e.g.o.$/(/*///0/2/3/6/:/\?/B/C/D"
    "/F/H/J/K/L/N/R/T/V/\\/`/b/e/f/h/i/j/l/n/o/r/%0'0+0-0/0001030507090;0=0\?0A0B0C0H0I0J0K0L0N0O0"
    "Q0S0T0U0W0Y0[0\\0]0_0a0b0c0e0f0g0i0j0k0m0o0$1&1'1(10111214161:1>1@1A1B1D1F1H1K1L1M1N1Q1S1T1V1"
    "W1X1^1a1d1f1n1r1-21292\?2A2C2E2G2K2M2O2P2Q2S2U2W2]2c2e2o2,3.303436393@3A3B3D3H3J3K3L3N3O3P3T3"
    "X3`3c3d3f3h3l3p3r3*41484:4A4C4E4G4I4K4M4Q4U4W4]4c4g4j4#5%5)5+505557595;5=5B5H5N5Q5T5Y5[5_5a5f"
    "5k5m5o5q5s5'6-6/63696@6A6E6K6M6O6Q6S6T6U6]6b6g6i6o6$7)7+7-7075777;7=7B7H7L7N7T7Z7_7a7c7f7k7m7"
    "q7s7'8/8183898A8B8C8E8I8K8M8O8U8]8c8e8i8l8o8*90969<9>9B9D9H9J9K9N9R9T9V9`9b9e9f9h9j9l9n9p9r9'"
    ":,:.:3:9:\?:E:K:P:Q:W:\\:^:b:j:#;%;);+;0;5;7;;;=;B;H;J;T;Y;[;_;a;k;m;q;s;*<-</<3<9<C<E<I<K<Q<"
    "S<U<W<]<b<g<i<n<o<#=%=)=+=5=7=;===B=H=L=N=T=Y=[=_=a=f=k=m=q=s='>->1>9>E>I>K>M>O>Q>S>U>e>i>l>p"
    ">#\?$\?&\?(\?*\?.\?0\?1\?2\?4\?6\?:\?<\?B\?D\?F\?H\?J\?K\?L\?N\?O\?T\?V\?X\?Z\?\\\?^\?b\?d\?f"
    "\?k\?l\?m\?'@-@/@1@9@\?@I@K@O@S@W@`@e@o@$A0A3A<ABADAFAHAJAKALAQARATAVAXAZA^A`AbAdAfAkAlArA$B%"
    "B'B+B-B/B0B1B3B5B9B=B\?BABBBCBEBGBHBJBKBLBMBNBQBSBTBUBWB[B\\B]B_BcBeBfBgBiBjBoBqBsB$C'C*C/C0C"
    "2C4C6C8C<C>C@CBCDCGCHCICKCLCNCRCTCVCZC]CaCeCfClCnCpC'D-D0D4D9D@DEDGDKDMDQDSDUDWD]DcDeDgDiDoD$"
    "E'E(E+E,E/E0E2E6E8E:E>EBEFEHEIEJEKELENEPERETEUEXE^E`EdEfEgEhElEnEpErE1FAFCFEFKFMFOFSFWFeFoF$G"
    "&G'G(G*G.G0G4G6G8G<G>GBGDGHGJGKGLGNGTGVG^G`GfGhGkGlGpGrG'H)H*H+H-H/H0H1H2H3H5H9H:H;H=H\?HAHBH"
    "CHEHGHHHIHJHKHLHMHNHOHQHSHTHUHWH[H]HcHeHfHgHiHkHoHsH$I(I.I0I4I6I8I@IBIFIHIJIKILINIRITI]IbIdIf"
    "IiIjInI&J'J-J/J0J1J2J3J6J9J;J=J\?JAJBJCJEJFJGJHJJJKJLJMJNJOJQJRJSJTJUJWJYJ_JaJcJeJfJgJiJlJnJo"
    "JsJ$K%K&K'K(K*K,K-K.K/K0K1K3K4K6K8K9K:K<K>K\?K@KAKBKCKDKEKGKHKIKJKKKLKMKNKOKPKQKSKTKUKVKWKXKZ"
    "K\\K]K`KaKbKcKeKfKgKhKiKlKnKoKpKrK#L$L%L&L(L)L*L-L/L0L2L3L5L6L7L8L9L:L;L<L\?LBLCLDLELFLGLHLIL"
    "JLKLLLMLNLOLQLSLTLWL[L]L^L_L`LaLcLfLjLmLoLpLqLrL&M'M(M*M,M0M2M6M=MBMDMFMHMJMKMLMMMNMPMRMSMTM["
    "M`MbMdMfMhMlMrM$N%N'N+N-N/N0N1N3N9N\?NANBNCNENGNHNINJNKNLNMNNNONQNSNTNUNWNZN]N`NcNeNfNgNhNiNo"
    "N&O)O0O4O5O9O:O<OBODOEOHOKOLOMONOROTOVOXOZOaOdOfOgOhOjOlO'P/P1P3P9PAPGPKPLPMPOPQPSPUPWPZPgPoP"
    "$Q&Q(Q*Q.Q0Q6Q7Q:Q<QBQEQHQKQLQNQTQUQXQ\\QaQdQfQlQpQrQ-R1R3R>R\?RCRKRLRMRPR]RcRgRoR-S.S0S1S4S6"
    "S:S<S>S@SBSDSFSHSJSKSLSNSOSPSRSTS\\S]S`SbSdSeSfSgShSjSlSnSrS'T)T+T-T0T1T3TATBTCTETGTHTJTKTLTN"
    "TQTSTTTUTWT^T`TaTcTfTgTiTjTmToTpTqT%U*U0U5U:U;U<U>UBUDUFUHUJUKULUMUOUPUTUVUYU[U]UaUeUgUhUiUkU"
    "nUpUsU1V3V9V\?VIVKVOVQVWV]VcVhVpV$W&W,W0W6W8W:W<W>W\?WBWCWDWHWJWKWLWNWPWTWXW[W\\WaWfWlWnWoWrW"
    "-X1X2X\?XAXEXGXKXMXOXSXTXWX^XeXhXjXpX#Y%Y)Y+Y5Y7Y;Y=YBYGYHYJYLYNYTYYY[Y_YaYfYkYmYqYsY'Z-Z/Z1Z"
    "3Z9Z\?ZAZEZGZIZKZLZMZNZSZUZWZ]Z`ZeZgZiZoZ#[%[)[+[0[5[7[;[=[H[J[N[T[Y[[[_[a[f[k[m[q[s[/\\3\\\?"
    "\\A\\H\\K\\O\\Q\\S\\W\\e\\i\\$]*].]0]4]:]<]>]\?]B]D]H]J]K]L]N]O]T]U]V]X]Z]\\]^]`]b]d]f]h]p]-^"
    "1^3^9^\?^A^E^F^G^K^N^O^Q^U^X^]^c^j^n^#_%_)_+_0_5_7_;_=_\?_B_H_J_N_T_W_Y_[___a_f_k_m_q_s_'`(`-"
    "`/`1`9`\?`A`C`E`G`I`K`O`Q`S`]`g`i`o`#a%a)a+a0a5a7a;a=aBaHaJaLaYa[a_aaafakamaqasa'b-b1b2b3b9b"
    "\?bCbEbKbMbObWbXb]bcbebgbibob$c&c(c*c,c0c2c4c6c8c:c<c>cBcGcHcJcKcLcNcRcTc\\c^cdcfchclcncpcrc'"
    "d-d/d3d9dAdCdEdGdIdKdMdUdWd]dedgdrd$e&e(e,e0e2e:e>eFeHeJeKeLeMeNePeQeReTe\\e^edeeefehelere#f'"
    "f)f+f,f-f/f0f1f3f6f9f<f=f\?fAfBfCfEfGfHfIfJfKfLfMfNfOfQfSfTfUfWfZf]f_fcfdfefffgfifjfkfmfofqfs"
    "f$g&g,g0g3g5g:g<gBgDgEgHgIgKgLgNgTgVg[g\\g`gagdgegfgngpgrg'h1h3h9h\?hChGhIhKhLhOhShTh]hchghih"
    "oh&i(i*i,i.i0i2i4i5i6i8i:i>i@iBiDiFiHiJiKiLiNiRiTiUiXiZi\\ibidifijilipi'j0j9jAjCjEjGjKjMjQj]j"
    "cjejfjgj#k%k)k+k0k5k7k;k=kBkHkJkLkNkYk[k_kakfkkkmkqksk'l*l-l/l1l3l4lClElHlKlMlOlQlSl]lbldlgli"
    "l%m)m+m,m3m7m;m=mBmHmLmNmTmYm[m_mamfmkmmmqmsm3n9n\?nAnGnJnKnMnOnQnTnUnVnWn]n(o*o,o.o0o2o:o<o@"
    "oBoHoJoKoLoNoToXoZo\\o]o^o`odofoho'p-p1p4p6p9pApCpFpIpKpLpMpPpRp^pbpfpgpiplpnppp#q%q)q+q5q7q;"
    "q=qHqJqLqNqYq[q_qaqfqkqmqqqsq'r/r3r6r9r\?rGrKrOrQrUrWrbrgr#s%s)s+s5s7s;s=sHsJsLsYs[s_sasfsksm"
    "sqsss";

static const char iq2_xxs_grid[] =
    "##%#'#)#+#-#/#5#7#;#=#\?#A#G#M#Q#S#Y#[#a#m#$$&$,$0$>$\\$h$#%%%7%[%$&&&,&6&8&>&@&D&P&Z&\\&b&n&"
    "#'%')'5'C'W'Y'c'*(,(>(\\(n(#)')))/);)\?)A)G)I)_)&*>*%+/+$,&,,,6,>,P,\\,b,f,#-)-5-G-O-Y-8.B.#/"
    ")/5/9/E/Y/20R0#111$2&2,2>2Z2#3'3k3H4#5%5+5A5Q5Y5[5<6D6#7%7$8&8,8>8L8#9\?9S9b:);5;e;A=$>&>,>2>"
    "6>8>>>D>L>P>Z>\\>b>#\?5\?Q\?Y\?]\?$@,@D@L@V@#A)A5AYAiA.B8B#C$D&D,D>DBD#EMEQE[EBFbF#G)G-G3G5GY"
    "G_G&H@HnHcIbJdJ+K$LJL#M-M3MSM>N)O&P,P>PVP#QKQ2RPR#S'S,T.T\\T@V#Y%Y+Y\?Y[Y&Z2Z>Z-[$\\&\\,\\0\\"
    ">\\P\\#]C]e]*^>^P^%_&`-a&b,b8b>blb1cYcBd#e7eAeHfZh5i%kGk]k*l#m2nGq&r";

static const char iq2_xs_grid[] =
    "##%#'#)#+#-#/#1#3#5#7#9#;#\?#A#C#E#G#I#K#M#Q#S#Y#[#]#_#c#e#i#k#$$&$($*$,$.$0$2$4$6$8$>$@$B$D$"
    "H$J$P$V$Z$\\$b$#%%%'%)%-%/%5%\?%A%G%K%Y%a%$&&&(&*&,&.&0&2&6&8&>&@&B&D&H&J&L&P&Z&\\&b&#'%''')'"
    "-'/'5'\?'A'G'Q'Y'$(&(,(:(>(@(\\(#)%)')))+)-)/)5)9)\?)A)G)M)Y)k)s)$*&*,*>*Z*`*#+5+;+g+k+$,&,(,"
    "*,,,.,0,2,6,8,>,@,B,D,H,J,P,X,Z,\\,b,#-%-'-)---/-5-\?-A-G-Y-e-g-$.&.(.,.>.P.#/%/'/)/-///5/\?/"
    "A/E/G/S/Y/$0&0,0>0#1/1E1$2&2,2.2>2J2^2#3'3U3H4r4#5%5'5)5+5-5/555\?5A5G5Y5k5$6&6,6>6D6T6#777Y7"
    "q7$8&8,8<8>8#9\?9I9i9$:4:p:#;);+;5;K;_;m;V<b<)=5=[=_=a=$>&>(>*>,>.>0>2>6>8>>>@>B>D>F>H>J>P>T>"
    "Z>\\>b>#\?%\?'\?)\?-\?/\?5\?\?\?A\?G\?Y\?]\?m\?$@&@,@.@<@>@#A%A'A)A-A/A3A5A\?AAAGAYAeA$B&B,B8"
    "B>BjB#C+CACGC$D&D,D>DBDJDRD#E-EAEGEWE&F#G%G'G)G-G/G5G;G\?GAGGGYG$H&H,H0H>H@H#IAIsI$J&J,J6J>JP"
    "JZJlJ#K)KYK_K6LVLlL#M/M\?MGMiM4N>N@N]O$P&P,P>PJPRP^PrP#Q8RFRdR#S1S,T>TBTnT$VXV9W(XJXRX#Y%Y'Y)"
    "Y-Y/Y5Y=Y\?YAYGYYY[YqYsY$Z&Z(Z,Z>ZHZNZ#[5[Y[[[k[q[$\\&\\,\\.\\0\\>\\P\\`\\#]A]o]2^X^#_)_9_O_Y"
    "_[_q_(`7aYa_agaqa$b&b,b>bLb\\b#c7cScLd`d#e'eAeGeMe<fbfdf\?gHhphEi0jPj#k%k)k+k5k=kkkHlNlpl#m%m"
    ")m=mYmkm>nfnTphp+q5q7q;qkqqq&r\\r^r;s=scsss";

static const char iq2_s_grid[] =
    "##%#'#)#+#-#/#1#3#5#7#9#;#\?#A#C#E#G#I#K#M#Q#S#U#W#Y#[#]#_#c#e#k#o#s#$$&$($*$,$.$0$2$6$8$>$@$"
    "B$D$H$J$L$N$P$T$V$Z$\\$b$d$f$l$n$#%%%'%)%-%/%5%=%\?%A%C%E%G%K%Y%]%a%e%m%$&&&(&*&,&.&0&2&6&8&:"
    "&<&>&@&B&D&F&H&J&L&N&P&R&T&Z&\\&^&`&b&f&h&l&n&#'%''')'+'-'/'1'3'5'9';'\?'A'C'E'G'I'K'M'Q'S'Y'"
    "[']'_'c'e'k'$(&(((*(,(0(>(B(D(H(J(P(Z(\\(b(#)%)')))-)/)1)3)5)9)=)\?)A)C)E)G)I)K)M)Q)S)Y)])e)s"
    ")$*&*,*.*0*2*6*>*B*D*H*J*P*Z*b*#+-+/+7+;+=+G+i+$,&,(,*,,,.,0,2,6,8,:,>,@,B,D,H,J,L,N,P,R,T,V,"
    "Z,\\,^,b,f,h,l,n,#-%-'-)-+---/-1-3-5-7-9-;-\?-A-C-E-G-I-K-M-Q-S-Y-[-]-_-c-e-$.&.*.,.0.6.8.>.B"
    ".H.J.Z.\\.b.#/%/'/)/-///1/3/5/9/;/\?/A/C/E/G/I/K/M/Q/S/Y/[/]/_/c/e/k/$0&0(0*0,0.000206080>0@0"
    "B0D0H0J0P0Z0\\0b0#1'1)1-1/151\?1A1G1Y1s1$2&2(2*2,2022262>2@2B2D2H2J2P2Z2\\2#3%3'3)3-3/353\?3A"
    "3G3W3m3&4,4>4L4#5%5'5)5-5/515355595=5\?5A5G5I5K5S5Y5a5e5s5$6&6,6.60666>6@6B6H6J6P6Z6\\6b6#7+7"
    "77;7=7A7G7_7a7q7$8&8(8*8,808286888>8@8B8D8H8J8P8Z8\\8b8#9'9)9-9/959\?9A9G9U9Y9$:&:,:>:N:#;';-"
    ";/;\?;A;G;a;s;$<&<,<f<+=7=S=_=a=$>&>(>*>,>.>0>2>4>6>8>:>>>@>B>D>F>H>J>L>N>P>R>T>Z>\\>b>f>h>l>"
    "n>#\?%\?'\?)\?-\?/\?1\?3\?5\?7\?9\?\?\?A\?C\?E\?G\?I\?K\?M\?Q\?S\?Y\?[\?]\?_\?c\?e\?k\?$@&@,@"
    ".@0@2@8@>@B@D@H@J@P@Z@\\@#A%A'A)A+A-A/A1A3A5A7A9A;A\?AAACAEAGAIAKAMAQASAYA[A]A_AcAeAkA$B&B(B*"
    "B,B.B0B2B6B8B>B@BBBDBHBJBPBXBZB\\BbB#C%C'C)C-C/C5C\?CACGCYCoC$D&D*D,D.D0D2D6D8D>D@DBDDDHDJDPD"
    "\\DbD#E%E'E)E-E/E5E\?EAEGEYEgE$F&F,F>F#G%G'G)G-G/G1G3G5G7G9G;G\?GAGCGEGGGIGKGMGQGSGYG[G]G_GcG"
    "eG$H&H(H*H,H.H0H2H6H8H>H@HBHDHHHJHPHZH\\HbH#I'I)I-I/I5I\?IAIGIWIYI$J&J(J*J,J.J0J2J6J8J>J@JBJD"
    "JHJJJPJZJ\\JbJ#K%K'K)K-K/K5K\?KAKGKYK$L&L,L:L>L#M%M'M)M-M/M5M\?MAMGMOMYM$N&N,N>N#O3O]OqO$P&P("
    "P,P.P0P2P6P8P>PBPDPHPJPPP\\PbP#Q%Q'Q)Q-Q/Q5Q\?QAQGQYQiQ&R,R>RLRlR#S'S)S-S/S5S\?SASGSYS$T&T,T>"
    "TFTVTdT#UeU$V&V,VTVhV#W=W@XlX#Y%Y'Y)Y-Y/Y3Y5Y9Y\?YAYGYIYKYMYQYYY]YcYeY$Z&Z*Z,Z.Z0Z2Z6Z8Z>Z@ZB"
    "ZDZHZJZZZ\\ZbZrZ#['[+[-[/[\?[A[G[$\\&\\(\\*\\,\\.\\0\\2\\6\\>\\@\\B\\D\\H\\J\\P\\Z\\\\\\b\\#]"
    "%]'])]-]/]5]\?]A]G]Y]a]$^&^,^<^>^#_'_-_/_\?_A_G_m_$`&`>`T`7aMaOa[ama$b&b*b,b.b0b2b8b>b@bBbDbH"
    "bJbPbZb\\bbb#c'c-c/c\?cAcGcOc$d&d,d>dpd#e%e'e)e-e/e5e\?eAeGeYege$f&f,f>fhflf#gCgSg$h&h,h:h>hr"
    "h#iEiIibj#k'k+k/k7k=k\?kAkGkmksk>lTl%m+m7m;m=m[m_mamqm$n&n,n>n`nnn#o3oHp+q;qmqJr^r)s+s5s7s;s_"
    "sss";

static const char iq3_xxs_grid[] =
    "##%#'#,#.#2#3#5#<#E#^#`#$$&$+$-$4$8$;$=$D$O$[$#%%%'%,%3%5%<%>%B%L%R%`%$&*&+&-&8&[&.'B'G'R'^'`"
    "'$(*(=(M(@)W)+*/*1*F*T*$+&+++-+4+6+;+=+\?+J+K+#,%,,,3,5,$-&-+---4-;-]-#.%.3.<.I.Y.$/(/K/3070I"
    "0\\0(152C2#3%3,3.3335393<3E3$4&4(4+4-444;4V4Z4[4#5%5,5253555B5C5P5$6+6/6[6_6@7N7&8:8D8_8$:&:1"
    ":H:$;+;-;4;6;K;X;];#<%<3<<<G<I<$=&=+=8=M=]=,>>>;\?J\?]\?#@)@5@P@/AAAVA>BSB'C2C@CBCNCRC_D3EBEC"
    "ESEYE*FHF'GLGWG8HFH[H(J+J-J;J-KDK[K#L)L9LPL/M=M]M%NNN+O6O:O]O%P<PKQ7RER7SGSISWS4TTT2UWU;VAVGW"
    "(XMX>Y&Z4Z&[([*[+[=[M[9\\C\\-]H]M]#^0^>^S^4_D_#`%`7`;a";

static const char iq3_s_grid[] =
    "##$#%#(#*#+#,#-#/#1#3#4#8#>#C#E#H#J#L#N#S#U#\\#_#b##$$$%$'$+$,$0$3$6$:$<$@$G$T$X$]$#%$%(%*%+%"
    ".%1%4%8%;%\?%E%H%J%L%N%[%^%&&,&0&3&5&<&>&A&G&K&M&Z&\\&`&#'.'2'4'7'='C'F'L'['%('(3(5(9(>(D(H(J"
    "(Y(^()),).)<)M)\\)#*%*'*3*5*9*>*K*O*#+$+%+'+++,+.+0+2+3+5+<+\?+A+O+Q+T+]+#,$,&,),+,/,4,;,>,D,"
    "K,M,[,a,#---0-2-3-7-=-C-F-P-S-]-$.'.*.+...4.:.;.\?.D.U.[.&/(/-///</>/E/I/K/O/$0+0.040;0=0L031"
    "71:1G1I1$2&2+2-242@2D2U2[2#3$3&3(3*3+3-3/3134363:3;3=3D3F3H3K3M3Z3[3^3`3#4%4+4.4245484<4\?4E4"
    "L4$5'5*54565;5B5D5N5R5\\5_5#6%6(6,65676<6>6E6K6Y6$7*73767=7@7D7]7`7'8,858B8C8N8[8#9%9*949P9T9"
    "(:,:9:;:F:K:%;,;.;0;2;5;<;>;@;E;G;J;L;V;\\;$<&<(</<4<6<C<S<]<a<#=-=3===\?=K=$>+>/>4>6>:>;>D>F"
    ">J>P>^>&\?,\?1\?5\?<\?M\?S\?W\?$@+@-@8@=@G@Q@^@1ADA$B&B3B5B@B#C'C-C3C7C:C=CDCKC[C%D*D,D.D5D;D"
    "@DFDLDPD$E&E+E0E4E>ECEREUE[E'F,F.F3F5F<F@F#G%G7GBGCG\\G(H*H4HUH.I\?ISI+J0J;JFJLJ%K+K/K5KCKGKJ"
    "KMKYK_K$L&L(L-L4L=L]L#M,M6M;MAMNM%N*N+N:NGNLNXN^N$O'O3O=OIO-P9PLPNPEQ%R'R5R,S.S0S<S>SSS#T3T:T"
    "WT-U\?UEUPUUU[U#V/V4VCV8WFWUW#X&X\?XSX(YCY,Z.Z#['[*[3[5[A[C[O[U[%\\,\\7\\F\\H\\$]']+]1]4];]L]"
    "%^=^@^N^$_(_._3_K_5`E`%a<a#b";
