"""Made by tools/generate/unicode_tables.py, not by hand: how many code points lie outside a set, then in it,
and so on, as in src/tokens/unicode_tables.h. A Python itself knows those of its version."""

from __future__ import annotations

from typing import Iterator

# Unicode 9.0: what is taken apart, or has a combining class.
NORMALIZED = (
    '_EE@H@EADAE@H@EAD@PASAHBC@ECEBEAQAV`@ALA[O@EAJBAAc@AAEMkEnA@_@C@H@EE@@@BXFXDCAj@A@@B@CBI@^@UA@@B@CBVAJDx@ALCAA'
    'AEAEAKAAvCl@@@@A@A@@gAJFDc@TO@nA@@@O@AFAEAA@Cb@@]Z_DHa@C@H@B@Dj@BwBM@\\h@@F@A@F@O@BCBG{A@MBMA@@rA@A@D@O@JBA@|A@'
    'O@mB@J@ABMAu@@t@CyB@C@FAdB@B@EA@A@@{BC{B@N@@BxABLCkBAMCkAAZ@@@@@H@H@C@C@C@K@FE@@@CAD@AJ@H@C@C@C@K@K@~A@O@@AqA@'
    'nUBs\\@^@|C@I@jE@nCBzEAfA@SGA@o@MgA@@@@@@@@@B@`@@E@@@AA@Ae@Hu@Ay@@JAbA@wCB@L@FC@E@BAeEu@D~C@@CyAEUAEAe@AEAG@@@@'
    '@@@^At@@F@@AC@MAE@RAB@GAAmELC@BKt@@BAmBAQ@]Bs@@C@A@V@@@Y@A@A@@@U@@@IDAAAAEAAAAAa@Co@CECz@Ap|@@qOBlC@_B_@iPE[@@'
    '@@@@@@@@@@@@@@@@@@@@@A@@@@@EA@A@A@A@AU@CAB@L@@@@@@@@@@@@@@@@@@@@@@@A@@@@@EA@A@A@A@AU@ACB@oj\\@CI_@AoAAsG@|D@ZQx'
    '@Bd@@~A@K@nF@@BAADA@@s@@uF@qgRmGA@@@AI@@@@AABcAAiBbABIL@D@@@A@A@HpUOl]@aF@tCDqs@@@@g@BC@dDA~i@@w@@Y@@@M@LAdABj'
    '@ABA}@@kA@H@iBAqDApA@MBWFBDlE@B@sBA@@BAuFABA}B@uBArB@rg@@otRDz@FfjS@~dDKBEGGAF]CLE`CBzlBF@PAF@A@DddAFlBFttbA}O')
# Unicode 9.0: what only Form KC takes apart.
COMPATIBLE = (
    '_D@F@@@C@ACAB@BrBAJAG@t@@cAHc@B{DH^EADtC@H@jABAAXB@AB@lK@lFCy|@@~B@g@Am@@iB@@@aK@n`BB@J@Q@[L@a@d@yE@aH@@A|@@BH'
    'E@D@KBG@BA@AC@@@GBL@F@OAAZ@LJ@vAC@B@J@AADAB@@B@BA@B@F@ECDEo@H@aDA@AnPjC`h@@fBBdOApF@nH@rA@KuEi@@t@@@B_BAA@~A@p'
    '@}ABM_B^@g@Gn@@~B@_G{s[AqE@fCAaZC_|RFKDGId@bB`@jJQ_AAu@g@LRIUTAK@R@CCB@@@fCC}DBEAEAEABBF@Fp_t@tA@fA@AA@AAAC@K@'
    '@@F@`A@CAG@F@[@C@D@@BF@sIAcHAq@_oDC@Z@A@@A@@I@C@@@@E@C@@@@@@B@A@@A@@@@@@@@@@A@@AC@F@C@C@@@I@PDB@D@PcQJD^@_@YAc'
    '@@nBBLk@CHFA')
# Unicode 16.0: categories Lu and Lt, Ll, and M.
CAPITALS = (
    '`AYdBV@F`@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@A@@@@@@@@@@@@@@@A@@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    '@@@@@@@@@@@@@@@@@@A@@@@BA@@@A@BAC@A@BBA@A@@@@@A@@A@@A@B@@@AB@FA@A@A@@@@@@@@@@@@@@@@A@@@@@@@@@@@@@@@@@AA@@@B@@@'
    '@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@FA@AA@@C@@@@@@@@`H@@@B@G@E@@B@@@A@P@Hb@@ABB@@@@@@@@@@@@'
    '@@@@@@@@@@@D@A@@AAr@o@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@H@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    'A@@@@@@@@@@@@A@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@A'
    'e@hyAe@@@D@qUuArcA@Ej@AB_I@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    '@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@H@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    '@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@HGGEIGGGGEJ@@@@@@@GGWGGGGGGDJDJCKDJDdG@C@BBABA@BDE@@@@@@C'
    'ACIAD@|@@{rAo@o@@@BA@@@@@@C@@A@GB@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    '@@@@@@@@@@@@@@@@@@@@@G@@@C@li]@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@R@@@@@@@@@@@@@@@@@@@@@@@@@@@fC@@@@@'
    '@@@@@@@@B@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@I@@@@A@@@@@@@@C@@@A@@@B@@@@@@@@@@@@@@@@@'
    '@@@D@D@@@@@@@@@@@@@@@C@@@AB@D@@@@@@@W@jxTYde@g@gCc@{CJ@N@F@Aiv@r@|CUyxA_@_kT_@_lXYYYYYY@@AA@AAAC@GYYYA@CAG@FZA'
    '@C@D@@BFZYYYYYYYYYYY]X`@X`@X`@X`@X`@@thCa@')
SMALL_LETTERS = (
    '`BYy@@h@W@G@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@A@@@@@@@@@@@@@@@A@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    '@@@@@@@@@@@@@@@@@@@A@@@@BA@@@A@BAC@A@BBA@A@@@@@A@@A@@A@B@@@AAABE@A@A@@@@@@@@@@@@@@@@A@@@@@@@@@@@@@@@@@AA@@@B@@'
    '@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@FA@AA@@C@@@@@@@@dA@Z`E@@@B@BBQ@Zb@@ABB@@@@@@@@@@@@@@@@'
    '@@@@@@@D@@A@AAr@o@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@H@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@A@@@'
    '@@@@@@@@@A@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@o@h@'
    'fyAj@ABwVEacAH@@tBk@~@L@a@eB@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    '@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@H@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    '@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@HGEIGGGGEIGGGGMAGGGGGGD@AE@BB@AGCAAGGIB@AqG@BAB@Z@C@C@AA'
    'GCC@t@@jtAo@@@BA@@@@@@C@@A@ED@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@'
    '@@@@@@@@@@@@@@@@@AF@@@C@Ke@@@D@rg]@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@R@@@@@@@@@@@@@@@@@@@@@@@@@@@fC@'
    '@@@@@@@@@@@B@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@G@@@@A@@@@@@@@@C@@@A@@B@@@@@@@@@@@@'
    '@@@@@@@@D@D@@@@@@@@@@@@@@@C@@@A@B@@@@@@@@@@@Y@B@tXj@DHFoA_yRFKDh`@Yle@g@gCc@zCJ@N@F@Abw@r@|BUyxA_@_kT_@ykXYYF@'
    'QYYYC@@@F@JYYYYYYYYYYYYYYYYY[[X@EYX@EYX@EYX@EYX@E@@sx@I@SEEvnAa@')
MARKS = (
    '_WoBrGFfGl@@@@A@A@@gAJo@TO@dBFAEAA@Cb@@]ZzAJy@HH@WC@H@B@Dj@Bz@Hi@W@`@u@B@Q@FIA\\Bw@@@FAAABH@IAY@ABw@@@DCAABB@]A'
    'B@JBw@@@G@B@BSAUE@Bw@@@FAAABFBIA]@z@DBB@CH@g@Dv@@@F@B@CFAJA\\Bw@@@F@B@CFAJAN@KCv@A@F@B@CH@IA\\BeA@CE@@@GQA|@@AFK'
    'GaB@AHJFhAAZ@@@@@CAp@S@ADJ@c@H@cBSVCCB@BAFBCLK@@IC~TBq\\C[B\\A]A_A_@H@l@B@@tBAa@@uBKCKzEDx@I@\\A@o@^p@Dn@Pe@HKB]L'
    'w@Mo@SwCB@TC@E@ABeE_AoU`@}~ABlC@_B_@iPEhBAsm\\C@I_@AoAAoG@B@C@VDC@rAAq@QYQL@e@GXLk@Cn@Mc@@bAMK@GAl@Bq@@@BAADA@@'
    'h@DDAkFG@AoxR@`VOOOl]@aF@tCDes@B@ADCg@BC@dDA|PC`AD|HAnACeAJp@CyBBt@Nh@@AAICl@JF@|@Bc@MOAk@@KBo@MGC@A{AKE@A@|CK'
    'TCv@A@FAAABH@IAAFBDbAH@@A@@C@D@@MAqAQV@pASjFFAHZAqAPiBLdBN_GNtFE@AAC@@@AlCFAFB@[Ig@F@CG@HJm@OtKG@GqAU@MyBEB@@A'
    '@F@@aAD@A@DzICHA@@o@FBDV@dfD@ENgeJQ_mADz@Fw_@@@v@FCpA@JAjdRA`rCm@AV}ODBEGGAF]CsCBz|@v@Cq@G@M@UD@Noi@F@PAF@A@Dc'
    'B@_DFvJ@|@C{NC}FA_VFlBFt|dWoF')


def code_points(runs: str) -> Iterator[int]:
    """The code points of a set, in order."""
    at, inside, value, shift = 0, False, 0, 0
    for letter in runs:
        digit = ord(letter) - ord('?')
        value, shift = value | (digit & 31) << shift, shift + 5
        if digit < 32:
            yield from range(at, at + value) if inside else ()
            at, inside, value, shift = at + value, not inside, 0, 0
