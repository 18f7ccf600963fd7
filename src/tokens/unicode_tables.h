// Made by tools/generate/unicode_tables.py from Unicode 16.0, not by hand: how many code points
// lie outside a class, then in it, and so on. A number is digits of 5 bits, the lowest first,
// from '?' on; 32 more mean that another digit follows.
static const char letter_runs[] =
    "`AYEYn@@I@C@DV@^@iMCKMDF@@@`CD@AAC@@E@@B@@@S@rA@jCGeD@e@A@Eh@fAZCCl@j@b@A@bB@@NAFAIBA@O@@]\\xAJ@W`@HA"
    "C@DUC@H@B@VXFJDW@EPi@y@u@B@Q@FINOCGAAAU@F@@BCB@O@LA@BMAI@GECAAU@F@A@A@A^C@@RBOH@B@U@F@A@DB@Q@NAV@JGA"
    "AAU@F@A@DB@]A@BN@P@@EBB@CBA@@@ABABBBKU@s@G@B@V@OB@YBA@AA]@CG@B@V@I@DB@^A@ANAPH@B@h@A@O@DBGBWEDQBW@H@"
    "@AFy@o@@AKFy@A@@@D@W@@@I@AH@AD@@TC_@@~@G@c@ZDrBj@S@OECCB@BAFBCLK@Pe@@@D@Aj@@lI@CAF@@@CAh@@CA`@@CAF@@"
    "@CAN@x@@CAbAd@OOuAAEBkRAP@YDjAEGFQLRMQML@BNs@b@@C@bAxAFDAa@@@DeAI^p@]ADJk@CYu@VHt@qA@|An@PGu@]LAIk@Y"
    "c@h@BIc@AJDj@ABh@C@E@AB@D_E_AuGAEAe@AEAG@@@@@@@^At@@F@@BB@FBCAECLDB@FsB@L@OLdB@C@AI@@BDE@@@@@@C@JACD"
    "DC@s@AzrAdFECBAKe@@@D@Aw@F@OVHF@F@F@F@F@F@F@FoA@tMAi@DDACuAEB@yA@CDj@@}AP_@o@O_O_mE_AlsTbAm@AlGBOIAS"
    "n@O^AeAp@HAfBAbAAA@@@GTO@B@C@V\\s@Mq@}@EB@@AJ[IVX\\Fn@[@OD@IID@h@VB@GSVB@Bq@@@BAADA@@@WBAJFBKEAEAEHF@F"
    "@j@@MErB\\c|IKVCp@cgGmJAiBe@FKDD@@I@L@D@@@A@A@kB`@jJQ_AAu@g@KsBD@fCc@YEYJxABEAEAEABb@K@Y@R@A@NAMa@zBd"
    "K\\Bp@n@_@LS@GEe@I]Ac@CGo@}CQc@Cc@Cg@Gs@KJ@N@F@A@J@N@F@ABs@KvHHUIGWE@i@@HdAEA@@k@@AB@AVIVH^`AR@AIUIYe"
    "Aw@EA_A@NC@B@\\i@\\B\\b@G@[Zu@IUIRLQmBhAv@r@Lr@Lc@e@[HVyFi@EAOBz@\\I@GUi@Qm@TZVKt@x@AA@Ll@_@XYc@\\@A@Gb@B"
    "@Ko@MCT@@@b@Q@XRA~@F@@@C@N@IFn@e@GAAAU@F@A@DB@Q@KD]I@@A@@e@@@X@@@k@t@QCSB]o@SA@@wDn@h@Cc@o@S@z@j@L@f"
    "AZd@FxDk@sB_A^GA@AG@A@WN@@@}AGAf@O@@@[@Ig@F@T@Jm@R@QhAfE`@^H@d@P@p@]oBF@A@e@T@XE@A@_@M@fIRN@@L@a@{B@"
    "nAy[eFcEkqA`BNo`@PEXz{BDfQxtE]av@xPF^PnAP]Qo@OC^TDRoLl@rE_A_CjAD@aAL_AA@@[w~DGue@h@IfvGC@F@A@bHN@\\BA"
    "@MCGkKcgAjBDLBHFIezDtA@fA@AA@AAAC@K@@@F@`A@CAG@F@[@C@D@@BF@sIAX@X@^@X@^@X@^@X@^@X@Gsx@^EEdG}@qCl@IFO"
    "@`I]Qk@cN[cF]A@nNF@C@A@N@dEz@cAF@sd@C@Z@A@@A@@I@C@@@@E@C@@@@@@B@A@@A@@@@@@@@@@A@@AC@F@C@C@@@I@PDB@D@"
    "PciC_vh@_@y`CE}EAasDMphFNmRalA}Oan@jyCD_bC";
static const char number_runs[] =
    "o@IwBAD@AB`l@IeCIeEI{KIuBICEkBIuBIuBIAEmBLrBIGFfBIgBFFRlBI_BIuBIeASkGIeAInUSpZBnFIEIUIkHI_CJdDIEIuDI"
    "uAIeCIEIu_@@BEEIeEr@ADuU{@mAUuR]hj@@hW@XHMBvICiCI]G@N_@If@N_z[I{DI_IEyCIe@IeEIUIuAIuKIuwSIlNl@Kx@PAt"
    "IZc@C\\@G@eCDiEIm\\GXFf@HjADUE_DAAOAm@_AHs@A]BjADgBGWGh@FiIEo@IEIuG^}CIi@CoBFeC]_CI{@IoCIFSzFIuIIuBIuJ"
    "IeBIESkAKcLR|AIuSIuA\\bFIeAIeLIeBTj`@nB`eNIehAIuAIeCI@FmOIeGVxqVIem@SKSkBXta@q@_iAIeLIuNIvFIkUH_CIvWz"
    "@@B@CkAl@@Na]LbvAI";
static const char space_runs[] =
    "HDQ@cB@Y@~mD@~jAJ\\AD@n@@_|B@";
static const char mark_runs[] =
    "_WoBrGFfGl@@@@A@A@@gAJo@TO@dBFAEAA@Cb@@]ZzAJy@HH@WC@H@B@Dj@Bz@Hi@W@`@u@B@Q@FIA\\Bw@@@FAAABH@IAY@ABw@@"
    "@DCAABB@]AB@JBw@@@G@B@BSAUE@Bw@@@FAAABFBIA]@z@DBB@CH@g@Dv@@@F@B@CFAJA\\Bw@@@F@B@CFAJAN@KCv@A@F@B@CH@I"
    "A\\BeA@CE@@@GQA|@@AFKGaB@AHJFhAAZ@@@@@CAp@S@ADJ@c@H@cBSVCCB@BAFBCLK@@IC~TBq\\C[B\\A]A_A_@H@l@B@@tBAa@@u"
    "BKCKzEDx@I@\\A@o@^p@Dn@Pe@HKB]Lw@Mo@SwCB@TC@E@ABeE_AoU`@}~ABlC@_B_@iPEhBAsm\\C@I_@AoAAoG@B@C@VDC@rAAq@"
    "QYQL@e@GXLk@Cn@Mc@@bAMK@GAl@Bq@@@BAADA@@h@DDAkFG@AoxR@`VOOOl]@aF@tCDes@B@ADCg@BC@dDA|PC`AD|HAnACeAJp"
    "@CyBBt@Nh@@AAICl@JF@|@Bc@MOAk@@KBo@MGC@A{AKE@A@|CKTCv@A@FAAABH@IAAFBDbAH@@A@@C@D@@MAqAQV@pASjFFAHZAq"
    "APiBLdBN_GNtFE@AAC@@@AlCFAFB@[Ig@F@CG@HJm@OtKG@GqAU@MyBEB@@A@F@@aAD@A@DzICHA@@o@FBDV@dfD@ENgeJQ_mADz"
    "@Fw_@@@v@FCpA@JAjdRA`rCm@AV}ODBEGGAF]CsCBz|@v@Cq@G@M@UD@Noi@F@PAF@A@DcB@_DFvJ@|@C{NC}FA_VFlBFt|dWoF";
static const char sign_runs[] =
    "`@NIFYEYCa@H@A@CA@@BA@B@V@^@iMCKMDF@@@PtB@G@DA@@mB@jC@vEEh@AABm@@@@A@A@k@APIJ@@BiACeB@H@I@RA@MgFCCAo"
    "@N^@h@@zEAI@`CAEA@@wB@xBA}B@aCG{B@F@C@iE@h@@yB@iA@N@IAdDVAES@@@@@@CfA@w@G@E@LnBEmAAzA@cRHf@IeB@kRAk@"
    "AmABfAA|CB@Cc@JtH@BAwCa@]A_CF@E_DAIPHK{BCz@D}@A_AGJ@hV@@BJBLBLBLAPWGn@ZDJDP`@~@A@C@AI@@BDE@@@@@@C@JA"
    "CDDC@@y@ACySUJpAmAUuR]_^A_@@hBdFEMC@AoB@nCn@@m@a@Y@xAKuEYO@CBXN@DADBzAAB@yA@sCACI_@e@H@O^J]G@N_@If@N"
    "_I_mE_AosTv@v@AlGBbB@I@rBEGVHAfBA|CCICy@CuAAg@B@@p@An@@`BLOA{BCVBcBAOAhB@MA~B@|xR@gCPzJQ~B@k@COIUb@@"
    "R@CtCNIFYEYJyBF@FLAaGBs@Hx@PAB@LB@n@l@aL@o@@}K@fV@^AeD@^@oGHe@@gA@f@FaAFxACpM@^A|G@fDDk@C|DFlBA@C}BC"
    "o@AnACC@L@@BwAEjB@iHA@AqBDIA@@gB@yFVhBB[LkA@aCCzF@gGBzC@{AGrAB@D|AIvE@~ADi@AdSAiALdC\\L@ob@D{zAAzrMAd"
    "C@`AHCAfPBfHCfI@xdR@A@_zBoFOsL{CsB{@uFIf@A{@DBUAF]C|@TaAB@yDvAiZ@X@^@X@^@X@^@X@^@X@{@_Ov@Cq@G@M@Fbu@"
    "@nL@~V@}YAkY@B@|B@`MAmGk@CcBKNAN@N@d@V`Dw@\\Lk@CHFAMEyCw]CPBLBvBC~AEKC@NKCw@GIEg@G]AKCA}@sIKMALBIDw@F"
    "NAJEHFrC@{A";
